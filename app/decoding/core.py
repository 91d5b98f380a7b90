"""The core's heavy part, torch and transformers: imported on first use, by one thread only."""

from __future__ import annotations

import threading
from importlib import import_module

_importing = threading.Lock()


def bring() -> None:
    """Import it now; other threads wait. Two threads that import packages with circular imports at the same time
    may see a half-initialised module."""
    with _importing:
        import_module("specdec_core.engine.plan")
