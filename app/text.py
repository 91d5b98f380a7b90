"""Text from visitors and models on its way into elements that would read it as Markdown."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&^=@/\"'])")


def plain(text: str) -> str:
    """`text` with every sign escaped that Markdown, LaTeX, HTML or Streamlit's own directives would act on."""
    return _SIGNS.sub(r"\\\1", text).replace("\n", " ")
