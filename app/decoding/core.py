"""The core's heavy part, torch and transformers: imported when something is to be computed, and by one thread alone."""

from __future__ import annotations

import threading
from importlib import import_module

_importing = threading.Lock()


def bring() -> None:
    """Import it now; whoever comes second waits. Two threads that import packages with circular imports of their own
    at the same moment may see half of a module."""
    with _importing:
        import_module("specdec_core.engine.plan")
