"""The top right of every page: the glossary and the teacher's link."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.ui import presenter
from app.ui.glossary import TERMS

from . import link_builder as builder

STYLE = """<style>
@media (max-width: 640px) {
  .st-key-corner { flex-direction: row; }
  .st-key-corner > * { flex: 1; min-width: 0; }
}
.sd-words { outline-offset: 4px; }
.sd-words dl { margin: 0; padding: 0; }
.sd-words dt { font-weight: 650; margin-top: .8rem; }
.sd-words dt:first-child { margin-top: 0; }
.sd-words dd { margin: 0; }
</style>"""


def draw(page: str) -> None:
    """The two boxes, unless the link hides them."""
    st.html(STYLE)
    with st.container(gap="small", key="corner"):
        if presenter.shows("title"):
            with st.popover("Glossary", icon=":material/menu_book:", width="stretch"):
                st.html(words())
        if presenter.shows("link"):
            with st.popover("Teacher's link", icon=":material/school:", width="stretch"):
                builder.draw(page)


def words() -> str:
    """The glossary as HTML; it takes the keyboard focus, so that it can be scrolled although it contains no control."""
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in TERMS.items())
    return f'<div class="sd-words" tabindex="0" role="region" aria-label="Glossary"><dl>{terms}</dl></div>'
