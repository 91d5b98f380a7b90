"""Bring a part of the page into view, once, after a press whose result is elsewhere on the page.

The page scrolls no further than needed, and the keyboard focus stays, unless the part has a player. Mount it at a
stable place above the part.
"""

from __future__ import annotations

import streamlit as st

from . import quirks

ASKED = "to_reveal"  # what the session's last press requested: a part's key, and a counter of presses
# The page's header covers what is scrolled to the very top.
STYLE = """<style>
.st-key-reveal { display: none; }
.st-key-open, .st-key-player, .st-key-lane-form { scroll-margin-block: 4.5rem 1rem; }
</style>"""


def ask(part: str) -> None:
    """Show the part with that key after this run of the script; call it where something was pressed."""
    st.session_state[ASKED] = (part, st.session_state.get(ASKED, ("", 0))[1] + 1)


def draw() -> None:
    """Carry out the request."""
    part, turn = st.session_state.get(ASKED, ("", 0))
    st.html(STYLE)
    quirks.reveal("reveal", part, turn)
