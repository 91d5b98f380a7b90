"""Loads the whole course before the first learner requests it, since reading its recorded runs takes time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from app.decoding import core

log = logging.getLogger(__name__)

QUIET_S = 10.0  # without a run: by then a first visitor has pressed Run, whose clock this would disturb


def begin(wait: Callable[[], None], busy: Callable[[], bool]) -> None:
    """Start on a thread of its own, once `wait` returns and nothing was `busy` for a while; go on only between runs."""
    threading.Thread(target=_read, args=(wait, busy), name="course", daemon=True).start()


def _read(wait: Callable[[], None], busy: Callable[[], bool]) -> None:
    wait()
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < QUIET_S:
        time.sleep(0.2)
        if busy():
            quiet_since = time.monotonic()
    core.bring()
    try:
        for part in _parts():
            while busy():
                time.sleep(0.2)
            part()
    except Exception:  # a page that needs it reports the error
        log.exception("the course could not be read ahead")


def _parts() -> Iterator[Callable[[], object]]:
    from .common_claims import claims
    from .files import reading
    from .misconceptions import inventory

    for language in reading.languages():
        for _, key, _, _ in reading.titles(language):
            yield partial(reading.read, language, key)
        yield partial(claims.every, language)
        for when in inventory.WHEN:
            yield partial(inventory.read, language, when)
