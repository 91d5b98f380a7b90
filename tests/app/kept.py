"""Two owners, and runs kept in a library for one of them."""

from __future__ import annotations

import time

from app import services
from app.decoding.models import ModelChoice
from app.decoding.run import Request
from app.decoding.runs import Runs
from app.records.store import Library, Saved
from app.records.summary import Summary
from specdec_core.settings import Settings

ANNA, BEN = "anna" * 8, "ben0" * 8


def add(library: Library, kept: list[tuple[Summary, bytes]], whose: str = ANNA, **given: str | None) -> str:
    """Keep the race; returns its id."""
    return library.add(
        whose,
        given.pop("prompt", None) or "abc",
        kept,
        origin="measured",
        machine="this one",
        recorded="2026-11-21",
        **given,
    )


LANES = (Settings(proposer="none", max_new_tokens=24), Settings(max_new_tokens=24))


def finish(runs: Runs, prompt: str = "abc", lanes: tuple[Settings, ...] = LANES) -> Saved | None:
    """A run, and what the library has of it a moment after its end."""
    run = runs.start(
        Request(prompt, lanes, ("Plain decoding", "Draft model, γ = 4")[: len(lanes)], ModelChoice())
    )
    assert run.wait(20)
    deadline = time.monotonic() + 20
    while (saved := services.library().get(ANNA, run.id)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return saved
