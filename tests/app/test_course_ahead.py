"""Reading the course ahead: not while somebody's run computes."""

from __future__ import annotations

import threading
import time

import pytest

from app.course import ahead


def test_the_course_is_read_between_runs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a first visitor's clock disturbed by lessons that nobody asked for yet."""
    running, ready, read = threading.Event(), threading.Event(), []
    monkeypatch.setattr(ahead, "QUIET_S", 0.5)
    monkeypatch.setattr(ahead.core, "bring", lambda: None)
    monkeypatch.setattr(
        ahead, "_parts", lambda: iter([lambda at=at: read.append(at) or running.set() for at in range(3)])
    )
    running.set()
    ahead.begin(ready.wait, running.is_set)
    for free in (ready.set, lambda: None):  # first the models load, then somebody runs
        time.sleep(0.8)
        assert read == []
        free()
    for done in (1, 2, 3):  # each part lets the next run go first
        running.clear()
        deadline = time.monotonic() + 10
        while len(read) < done and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        assert read == list(range(done))
