"""What all sessions of this process share: one shelf of models, one set of runs, one policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from specdec_core.events import Event
from specdec_core.settings import Settings

from . import policy
from .models import Choice, Shelf
from .runs import Runs


@cache
def operator() -> policy.Policy:
    """What the operator of this server allows."""
    return policy.read()


@cache
def shelf() -> Shelf:
    """The models that are loaded."""
    return Shelf(_load, _fetch)


@cache
def runs() -> Runs:
    """The runs of all sessions."""
    return Runs(lambda choice, gone: shelf().get(choice, gone), _race)


def _load(choice: Choice) -> Any:
    import specdec_core as sd  # here and not above: it brings torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # the page shows progress; the log stays readable
    if choice.target is None:
        return sd.load_models(device=choice.device, dtype=choice.dtype)
    return sd.load_models(choice.target, draft=choice.draft, device=choice.device, dtype=choice.dtype)


def _fetch(name: str, told: Callable[[int, int], None]) -> None:
    from specdec_core import hub

    hub.fetch(name, told)


def _race(models: Any, prompt: Any, lanes: list[Settings], *, cancelled: Callable[[], bool]) -> Iterator[Event]:
    import specdec_core as sd

    return sd.race(models, prompt, lanes, cancelled=cancelled)
