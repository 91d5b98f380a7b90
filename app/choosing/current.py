"""The models that the page runs: their control, their place in the page's address, and their usual settings.

Without a choice the server's default family is used once it is loaded, and the tiny one until then. When the default
becomes ready while a visitor is on the page, the next run uses it; what they typed and chose stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.lanes import lane
from app.ui.glossary import define
from app.ui.state import State, state
from app.ui.widgets import pick

from . import model_picker, presets, usual
from .usual import Usual

LINKED_ANY = "*"
LANE = lane.Lane()


def name() -> str:
    """The models that the next run uses, by their name in the model picker."""
    return model_picker.picked()


def words() -> Usual:
    """What is usual for the chosen models."""
    return usual.of(name())


def wraps() -> bool:
    """Whether the prompt is sent as a message in the models' chat template, as far as is known before a run."""
    models = model_picker.loaded()
    if models is not None:
        return bool(state.chat and models.card.chat_template)
    return bool(state.chat and (words().audience == "chat" or name() == model_picker.OTHER))


def system_line() -> str:
    """The requested system line; empty for the template's own."""
    return state.system.strip()


def guessers() -> list[str]:
    """The proposers worth starting with, the best first."""
    return usual.guessers(name())


def options(proposer: str) -> Mapping[str, Any]:
    """What a link means that names a proposer without its options, where that differs from their defaults."""
    return usual.options(name(), proposer)


def begins(proposer: str) -> Mapping[str, Any]:
    """The options of a proposer that a visitor starts with, where they differ from their defaults."""
    return options(proposer) if state.linked in (LINKED_ANY, proposer) else usual.begins(name(), proposer)


def must_be_named(proposer: str) -> bool:
    """Whether an address has to name the proposer, as one that names none means other options of it."""
    return options(proposer) != usual.begins(name(), proposer)


def penalty() -> float | None:
    """The usual repetition penalty for the page's prompt: its kind's, else the models'; None leaves it to them."""
    kind = presets.kind(state.prompt)
    if not wraps():
        return None
    if kind is not None and kind.repetition_penalty is not None:
        return kind.repetition_penalty
    return words().repetition_penalty


def settle() -> None:
    """Apply the usual settings of the models in force, where the models changed and the visitor chose nothing else.

    Called before the page's widgets are drawn.
    """
    options = model_picker.model_options()
    if not State.model.held:  # like `widgets.pick`, which runs too late for what depends on it
        asked = st.query_params.get(State.model.key, state.last_picked.get(State.model.key))
        state.model = asked if asked in options else options[0]
    before, state.settled = state.settled, name()
    if before is None or before == name():
        return
    state.ready_now = name() if state.model == model_picker.AUTO else None
    first, now = usual.guessers(before), guessers()
    if not State.proposer.held or (state.proposer == first[0] and _is_usual()):
        state.proposer = now[0]
    if state.prompt == state.opened_with:  # chosen by the page, not the visitor
        _take_fitting_example()


def _is_usual() -> bool:
    """Whether the lane has no setting of the visitor's own, whoever its proposer is."""
    return all(getattr(state, key) == getattr(LANE, key) for key in lane.KEYS if key != State.proposer.key)


def shown_before() -> tuple[str, str]:
    """The proposer and the models whose recording is shown before a run.

    Also of a family that is still loading: a recording needs no models, and must not change while it is being watched.
    """
    if state.model != model_picker.AUTO:
        return state.proposer, name()
    family = model_picker.usual()
    chosen = state.proposer != guessers()[0]
    return state.proposer if chosen or family == name() else usual.guessers(family)[0], family


def picker() -> None:
    """The control for the models, with what they are good for as its help."""
    if state.go:  # the run that starts now uses them
        state.ready_now = None
    pick(
        "Models",
        model_picker.titles(),
        State.model.key,
        f"{_good_for()}\n\nThe target model that writes, and what guesses for it. " + define("Target model"),
        on_change=_chose,
    )


def _good_for() -> str:
    """What the chosen models are good for."""
    return words().good_for or model_picker.note(name())


def _chose() -> None:
    """The visitor picked models: replace an untouched example prompt by one that suits them."""
    settle()
    state.ready_now = None
    _take_fitting_example()


def _take_fitting_example() -> None:
    """Replace an example for models of the other kind by the first one for those chosen."""
    shown = presets.matching(state.prompt)
    families = presets.offered("chat" if wraps() else "text")
    if shown and families and all(shown not in family.presets for family in families):
        state.prompt = families[0].presets[0].text
