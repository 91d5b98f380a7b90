"""The models that the page runs, and what is usual for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.lanes.lane import Lane
from app.ui.state import state
from specdec_measure.sweep.cases import Audience

from . import defaults, model_picker
from .defaults import Defaults


def name() -> str:
    """The models that the next run uses, by their name in the model picker."""
    return model_picker.picked()


def words() -> Defaults:
    """What is usual for the chosen models."""
    return defaults.of(name())


def wraps() -> bool:
    """Whether the prompt is sent as a message in the models' chat template, as far as is known before a run."""
    models = model_picker.loaded()
    if models is not None:
        return bool(state.chat and models.card.chat_template)
    return bool(state.chat and (words().audience == "chat" or name() == model_picker.OTHER))


def system_line() -> str:
    """The requested system line; empty for the template's own."""
    return state.system.strip()


def audience() -> Audience:
    """Whom the prompts are for that suit the chosen models."""
    return "chat" if wraps() else "text"


def proposers() -> list[str]:
    """The proposers worth starting with, the best first."""
    return defaults.proposers(name())


def linked() -> str:
    """The proposer of a link that names none but has settings of one."""
    wanted, there = words().linked, proposers()
    return wanted if wanted in there else there[0]


def options(proposer: str) -> Mapping[str, Any]:
    """What a link means that names a proposer without its options, where that differs from their defaults."""
    return defaults.options(name(), proposer)


def begins(proposer: str) -> Lane:
    """The lane with a proposer that a visitor starts with."""
    return defaults.begins(name(), proposer)


def penalty() -> float | None:
    """The repetition penalty that an empty box leaves to the models: what their generation config sets, if it is used.

    None where it sets none, or before the models are loaded.
    """
    models = model_picker.loaded() if state.generation else None
    return models.card.generation.requests.get("repetition_penalty") if models is not None else None
