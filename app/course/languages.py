"""The course's language: of the address, else the one this visitor chose last, else English. One key changes it."""

from __future__ import annotations

import streamlit as st

from app.ui import address

from . import progress
from .files import reading
from .files.words import Words


def chosen() -> str:
    """The language to show the course in."""
    there = reading.languages()
    asked = (st.query_params.get("lang"), progress.here().language)
    return next((name for name in asked if name in there), there[0])


def choice(words: Words, short: bool = False) -> None:
    """A button for the next language, in that language; L on the keyboard."""
    there = reading.languages()
    if len(there) == 1:
        return
    after = there[(there.index(words.language) + 1) % len(there)]
    other = Words(after, words.folder)
    st.button(
        after.upper() if short else other("language.name"),
        key="course-language",
        icon=":material/translate:",
        shortcut="L",
        on_click=_take,
        args=(after,),
        type="tertiary",
        help=other("language.offer"),
    )


def _take(name: str) -> None:
    """Show it, and remember it for pages without a language in their address."""
    progress.here().language = name
    address.put("lang", name)
