"""Bring a part of the page into view, once: after a press whose answer stands elsewhere on the page.

The keyboard goes along to the player in that part, if there is one. Mount it where it keeps its place, above the part.
"""

from __future__ import annotations

import streamlit as st

from . import quirks

ASKED = "to_reveal"  # what the session's last press asked for: a part's key, and which press it was
# The page's own head lies over what is scrolled to the very top.
STYLE = """<style>
.st-key-reveal { display: none; }
.st-key-open, .st-key-player { scroll-margin-top: 4.5rem; }
</style>"""


def ask(part: str) -> None:
    """Show the part of that key after this run of the script; call it where something was pressed."""
    st.session_state[ASKED] = (part, st.session_state.get(ASKED, ("", 0))[1] + 1)


def draw() -> None:
    """Do what was asked for."""
    part, turn = st.session_state.get(ASKED, ("", 0))
    st.html(STYLE)
    quirks.reveal("reveal", part, turn)
