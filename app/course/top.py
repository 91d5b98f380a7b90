"""A new step, lesson or list starts at its top: Streamlit keeps the previous one's scroll position."""

from __future__ import annotations

import streamlit as st

from app.ui import quirks

from . import inventory_view, overview

KEY = "course-top"


def begin() -> None:
    """Scroll to the top if the page shows something new; within a step keep the position."""
    quirks.to_top(KEY, place())


def place() -> str:
    """What is shown: the lesson and its step, the claims, a question, the sheets, or the list of lessons."""
    asked = [st.query_params.get(key, "") for key in (*overview.PARTS, "sheet") if key != inventory_view.AT]
    return " ".join([*asked, inventory_view.standing()])
