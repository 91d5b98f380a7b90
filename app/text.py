"""Text from visitors and models on its way into elements that would read it as Markdown."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&^=@/\"'])")
# What is made a link of although its signs are escaped.
_LINKS = re.compile(r"(:(?=//)|w(?=ww\.)|@(?=\w))", re.IGNORECASE)
# Overrides of the writing direction and their ends: one that came in a text would turn round what follows it.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_JOIN = "\u2060"  # shows nothing, breaks no line


def plain(text: str) -> str:
    """`text` with every sign escaped that Markdown, LaTeX, HTML or Streamlit's own directives would act on."""
    text = _TURNS.sub("\ufffd", text)
    return _SIGNS.sub(r"\\\1", _LINKS.sub(rf"\1{_JOIN}", text)).replace("\n", " ")


def count(number: int, word: str) -> str:
    """How many, with the word in its right form: 1 token, 2 tokens, 2 passes."""
    return f"{number:,} {word}{'' if number == 1 else 'es' if word.endswith('s') else 's'}"
