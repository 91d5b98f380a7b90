"""The top right of every page: the glossary and the teacher's link."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import streamlit as st

from app.text import plain
from app.ui import presenter
from app.ui.fragment import fragment
from app.ui.glossary import search

from . import link_builder as builder

STYLE = """<style>
.st-key-corner > * { flex: 1 1 7.5rem; min-width: 0; }
.sd-words { outline-offset: 4px; }
.sd-words dl { margin: 0; padding: 0; }
.sd-words dt { font-weight: 650; margin-top: .8rem; }
.sd-words dt:first-child { margin-top: 0; }
.sd-words dd { margin: 0; }
</style>"""


def draw(page: str) -> None:
    """The two boxes."""
    st.html(STYLE)
    if presenter.presenting():
        return
    with st.container(horizontal=True, gap="small", key="corner"):
        with st.popover("Glossary", width="stretch"):
            _glossary(page)
        _link(page)


@fragment
def _link(page: str) -> None:
    """The teacher's link, made when it is opened: the viewer may have stepped since the page was drawn."""
    with st.popover("Teacher's link", width="stretch", key=f"teachers_link_{page}", on_change="rerun"):
        builder.draw(page)


@fragment
def _glossary(page: str) -> None:
    """The search, and what it leaves."""
    wanted = st.text_input(
        "Search the glossary",
        type="search",
        key=f"glossary_{page}",
        live=True,
        icon=":material/search:",
        placeholder="Search",
        label_visibility="collapsed",
    )
    found = search(wanted or "")
    if found:
        st.html(words(found))
    else:
        st.caption(f"No entry contains “{plain((wanted or '')[:60])}”.")


def words(found: Mapping[str, str]) -> str:
    """Entries as HTML; they take the keyboard focus, so that they can be scrolled although they contain no control."""
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in found.items())
    return f'<div class="sd-words" tabindex="0" role="region" aria-label="Glossary"><dl>{terms}</dl></div>'
