"""What all sessions of this process share: loaded models, runs, the library, the operator's policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from app.decoding import conversion, core
from app.decoding.models import Choice, Shelf, family
from app.decoding.run import Run
from app.decoding.runs import Runs
from app.records import keeping, visitor
from app.records.store import Library
from specdec_core.engine.events import Event
from specdec_core.errors import SpecdecError
from specdec_core.proposers import available
from specdec_core.settings import Settings

from . import config as policy


@cache
def operator() -> policy.Policy:
    """The operator's policy."""
    return policy.read()


@cache
def shelf() -> Shelf:
    """The loaded models."""
    usual = family(operator().family)
    return Shelf(_load, _fetch, prepare=conversion.prepare, stay=tuple(dict.fromkeys((Choice(), usual))))


@cache
def runs() -> Runs:
    """The runs of all sessions."""
    return Runs(
        lambda choice, gone: shelf().get(choice, gone),
        _race,
        owner=visitor.of_session,
        remembered=visitor.is_remembered,
        save=_save,
    )


@cache
def library() -> Library:
    """The library of kept runs.

    Raises:
        LibraryError: one sentence, if the operator's file cannot be used.
    """
    return Library(operator().library)


def run_of(key: str | None, whose: str) -> Run | None:
    """The run that the address key `key` names, for this visitor: their own, or one that a shared link opens."""
    return keeping.find(key, whose, runs(), library())


def _load(choice: Choice) -> Any:
    core.bring()
    from transformers.utils import logging

    import specdec_core as sd  # here and not above: it imports torch

    logging.disable_progress_bar()  # the page shows progress; keep it out of the log
    models = sd.load_models(choice.target, draft=choice.draft, device=choice.device, dtype=choice.dtype)
    # The first pass of a process is slow and imports the rest; better here than in a visitor's first run. The bundled
    # family is quick and tries every proposer, others only passes over one token and over several.
    quick = choice.target is None
    for name, why in available(models).items():
        needs_person = "person" in sd.PROPOSERS[name].needs
        if why is None and not needs_person and (quick or name in ("none", "prompt-lookup")):
            with suppress(SpecdecError):
                sd.decode(models, "Once upon a time", Settings(proposer=name, max_new_tokens=4))
    return models


def _fetch(name: str, on_progress: Callable[[int, int], None]) -> None:
    from specdec_core.models import sources

    sources.fetch(name, on_progress)


def _save(run: Run) -> None:
    keeping.keep(run, library())


def _race(
    models: Any,
    prompt: Any,
    lanes: list[Settings],
    *,
    cancelled: Callable[[], bool],
    ask: Callable[[str], str],
) -> Iterator[Event]:
    import specdec_core as sd

    return sd.race(models, prompt, lanes, cancelled=cancelled, ask=ask)
