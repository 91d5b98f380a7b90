"""What Streamlit's page does not do by itself, in one script that every page has: `frame.js`.

It keeps the browser's history, the document's colours and language, closes the menu on a phone, begins what is new at
its top, and brings a part of the page into view after a press whose result is elsewhere on the page.
"""

from __future__ import annotations

import streamlit as st

from . import quirks

ASKED = "to_reveal"  # what the session's last press requested: a part's key, and a counter of presses


def reveal(part: str) -> None:
    """Show the part with that key once, scrolling no further than needed; call it where something was pressed.

    The keyboard focus stays where it is, unless the part has a player.
    """
    st.session_state[ASKED] = (part, st.session_state.get(ASKED, ("", 0))[1] + 1)


def draw(page: str, top: str | None = None, language: str = "en") -> None:
    """Call it once for each run of the script, at the same place.

    Args:
        page: the page's name.
        top: what it shows, where a change begins at the top of the page; None where it does not.
        language: what it is written in.
    """
    quirks.frame(page=page, top=top, language=language, reveal=st.session_state.get(ASKED, ("", 0)))
