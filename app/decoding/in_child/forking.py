"""The process that decoders are forked from: it has imported torch and transformers and computes nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PRELOAD = ["app.decoding.in_child.preload"]
# How long a CPU thread of torch's waits for another before it sleeps. By default so long that on two cores with a third
# busy thread, such as a browser's, a token of the chat model takes 181–213 ms; so it takes 44, as on an idle machine.
SPIN = {"GOMP_SPINCOUNT": "20000"}


def context() -> Any:
    """How multiprocessing starts a decoder."""
    for name, value in SPIN.items():
        os.environ.setdefault(name, value)  # read when a process imports torch, which this one does not
    found: Any = multiprocessing.get_context(METHOD)
    if METHOD == "forkserver":
        found.set_forkserver_preload(PRELOAD)
    return found


def begin() -> None:
    """Start it now, so that it imports while this process does; else the first decoder starts it."""
    context()
    if METHOD == "forkserver":
        with _apart():
            forkserver.ensure_running()


def start(process: BaseProcess) -> None:
    """Start a process."""
    with _apart():
        process.start()


@contextmanager
def _apart() -> Iterator[None]:
    """What is started here does not run this process's main script, as multiprocessing would have it.

    While a page is being drawn, Streamlit makes the page the main script.
    The new process, and the one that it is forked from, inherit that SIGTERM and SIGINT wait: systemd and a terminal
    send them to all processes, and these end with the web server.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    resource_tracker.ensure_running()  # starting it lets both through again
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        sys.modules["__main__"] = main


def end() -> None:
    """End it; it listens to nobody while it imports torch."""
    server: Any = getattr(forkserver, "_forkserver", None)
    if pid := getattr(server, "_forkserver_pid", None):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
