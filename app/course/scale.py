"""A slider over decimal numbers, written as the course's language writes them; Streamlit's own knows one notation."""

from __future__ import annotations

import streamlit as st

from .words import Words


def scale(
    label: str,
    low: float,
    high: float,
    start: float | None,
    step: float,
    words: Words,
    key: str,
    width: int | None = None,
    form: str = ".2f",
) -> float:
    """The number chosen between `low` and `high`, both included, in steps from `low`, written in this form.

    Without a `start` it is in the session's state already.
    """
    places = [round(low + step * at, 6) for at in range(round((high - low) / step) + 1)]
    return st.select_slider(
        label,
        places,
        None if start is None else min(places, key=lambda place: abs(place - start)),
        format_func=lambda place: words.number(place, form),
        key=key,
        width=width or "stretch",
    )
