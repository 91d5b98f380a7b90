"""Loads the whole course before the first learner requests it, since reading its recorded runs takes time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from app.decoding import core

log = logging.getLogger(__name__)


def begin(wait: Callable[[], None]) -> None:
    """Start on a thread of its own, once `wait` returns: the models are loaded at the same time and matter more."""
    threading.Thread(target=_read, args=(wait,), name="course", daemon=True).start()


def _read(wait: Callable[[], None]) -> None:
    wait()
    core.bring()
    from . import claims, inventory, reading

    try:
        for language in reading.languages():
            for _, key, _, _ in reading.titles(language):
                reading.read(language, key)
            claims.every(language)
            for when in inventory.WHEN:
                inventory.read(language, when)
    except Exception:  # a page that needs it reports the error
        log.exception("the course could not be read ahead")
