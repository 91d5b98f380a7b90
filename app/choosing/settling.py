"""The control for the models, and what changes with them.

Without a choice the server's default family is used once it is loaded, and the tiny one until then. When the default
becomes ready while a visitor is on the page, the next run uses it; what they typed and chose stays.
"""

from __future__ import annotations

import streamlit as st

from app.lanes.lane import KEYS, Lane
from app.ui.glossary import define
from app.ui.state import State, state
from app.ui.widgets import pick
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import PROPOSERS

from . import current, lane_state, model_picker, presets, usual

LANE = Lane()


def settle() -> None:
    """Apply the usual settings of the models in force, where the models changed and the visitor chose nothing else.

    Called before the page's widgets are drawn.
    """
    options = model_picker.model_options()
    if not State.model.held:  # like `widgets.pick`, which runs too late for what depends on it
        asked = st.query_params.get(State.model.key, state.last_picked.get(State.model.key))
        state.model = asked if asked in options else options[0]
    before, state.settled = state.settled, current.name()
    if before is None or before == current.name():
        return
    state.ready_now = current.name() if state.model == model_picker.AUTO else None
    first, now = usual.guessers(before), current.guessers()
    if not State.proposer.held or (state.proposer == first[0] and _is_usual(before)):
        state.proposer = now[0]
    if state.prompt == state.opened_with:  # chosen by the page, not the visitor
        _take_fitting_example()


def _is_usual(models: str) -> bool:
    """Whether the lane has no setting of the visitor's own, given what is usual for `models`."""
    kind = state.proposer
    try:
        own = lane_state.options("o", PROPOSERS[kind])
    except SettingsError:
        return False
    every = usual.options(models, kind), usual.begins(models, kind), current.begins(kind)
    return (not own or own in every) and all(
        getattr(state, key) == getattr(LANE, key) for key in KEYS if key != State.proposer.key
    )


def picker() -> None:
    """The control for the models, with what they are good for as its help."""
    if state.go:  # the run that starts now uses them
        state.ready_now = None
    pick(
        "Models",
        model_picker.titles(),
        State.model.key,
        f"{_good_for()}\n\nThe target model that writes, and what guesses for it. "
        + " ".join([*model_picker.sizes(), define("Target model")]),
        on_change=_chose,
    )


def _good_for() -> str:
    """What the chosen models are good for."""
    return current.words().good_for or model_picker.note(current.name())


def _chose() -> None:
    """The visitor picked models: replace an untouched example prompt by one that suits them."""
    settle()
    state.ready_now = None
    _take_fitting_example()


def _take_fitting_example() -> None:
    """Replace an example for models of the other kind by the first one for those chosen."""
    shown = presets.matching(state.prompt)
    families = presets.offered("chat" if current.wraps() else "text")
    if shown and families and all(shown not in family.presets for family in families):
        state.prompt = families[0].presets[0].text
