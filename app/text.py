"""Escapes text from visitors and models for elements that would read it as Markdown."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&^=@/\"'])")
# Turned into a link even if its characters are escaped.
_LINKS = re.compile(r"(:(?=//)|w(?=ww\.)|@(?=\w))", re.IGNORECASE)
# Overrides of the writing direction and their ends: one in a text would reverse what follows it.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_JOIN = "\u2060"  # invisible, does not break a line


def plain(text: str) -> str:
    """`text` with every character escaped that Markdown, LaTeX, HTML or Streamlit's directives would interpret."""
    text = _TURNS.sub("\ufffd", text)
    return _SIGNS.sub(r"\\\1", _LINKS.sub(rf"\1{_JOIN}", text)).replace("\n", " ")


def count(number: int, word: str) -> str:
    """A count with its noun in the right form: 1 token, 2 tokens, 2 passes."""
    return f"{number:,} {word}{'' if number == 1 else 'es' if word.endswith('s') else 's'}"
