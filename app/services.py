"""What all sessions of this process share: one shelf of models, one set of runs, one policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from specdec_core.errors import SpecdecError
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
    from transformers.utils import logging

    import specdec_core as sd  # here and not above: it brings torch

    logging.disable_progress_bar()  # the page shows progress; the log stays readable
    models = sd.load_models(choice.target, draft=choice.draft, device=choice.device, dtype=choice.dtype)
    # The first pass of a process is slow and imports what is left; better here than in a visitor's first run.
    lanes = [
        Settings(proposer=name, max_new_tokens=4) for name, why in models.available().items() if why is None
    ]
    with suppress(SpecdecError):
        for _ in sd.race(models, "Once upon a time", lanes[: sd.lanes.MAX_LANES]):
            pass
    return models


def _fetch(name: str, told: Callable[[int, int], None]) -> None:
    from specdec_core import hub

    hub.fetch(name, told)


def _race(
    models: Any, prompt: Any, lanes: list[Settings], *, cancelled: Callable[[], bool]
) -> Iterator[Event]:
    import specdec_core as sd

    return sd.race(models, prompt, lanes, cancelled=cancelled)
