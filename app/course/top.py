"""A new step, lesson or list begins at its top: Streamlit leaves the page where the one before it was scrolled to."""

from __future__ import annotations

import streamlit as st

from app.ui import quirks

from . import inventory_view, overview

KEY = "course-top"


def begin() -> None:
    """Go to the top where the page shows something else than before; within a step it stays where it is."""
    quirks.to_top(KEY, place())


def place() -> str:
    """What is on show: the lesson and its step, the claims, a question, the sheets, or the list of lessons."""
    asked = [st.query_params.get(key, "") for key in (*overview.PARTS, "sheet") if key != inventory_view.AT]
    return " ".join([*asked, inventory_view.standing()])
