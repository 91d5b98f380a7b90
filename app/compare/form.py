"""The form of the lane being edited: filled from the lane, and read back into it on each run."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.choosing import form as widgets
from app.choosing import lane_form
from app.lanes.lane import LETTERS
from app.ui.chip import heading
from app.ui.state import State, state


def draw(missing: Mapping[str, str | None]) -> None:
    """The form of the lane being edited, if any."""
    name = state.editing
    if name is None or name not in state.lanes:
        return
    if not widgets.is_drawn(name):
        widgets.put(state.lanes[name], name)
    number = list(state.lanes).index(name) + 1
    with st.container(border=True, key="lane-form"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.html(heading(number, f"Lane {LETTERS[number]}"))
            st.button("Done", icon=":material/check:", key="done", on_click=close)
        guesses, judges, lengths = st.columns(3, gap="medium")
        with guesses:
            kind = lane_form.proposer(missing, name)
            lane_form.guessing(kind, name)
        with judges:
            lane_form.judging(kind, name)
        with lengths:
            lane_form.draft_length(kind, name)
            lane_form.lengths(kind, name)
    take()


def take() -> None:
    """Copy the open form's values into its lane, what is invalid in it as it was."""
    name = state.editing
    if name is not None and name in state.lanes and widgets.is_drawn(name):
        state.lanes[name], _ = widgets.read(name, state.lanes[name])


def close() -> None:
    """Close the form; its values are the lane's."""
    take()
    state.editing = None


def race() -> None:
    """Run was pressed: close the form, and show the race, unless it is the first one and the link names a tab."""
    close()
    if State.tab.key in state.last_picked:
        state.tab = "Race"


def broken(name: str) -> str | None:
    """The form's first invalid value, as a sentence; None if all are valid or no form is open."""
    return widgets.read(name, state.lanes[name])[1] if widgets.is_drawn(name) else None
