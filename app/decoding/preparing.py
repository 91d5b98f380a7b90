"""Downloads and conversions, each in a process of its own: it can be ended at any moment, and leaves no memory behind.

The process is the core's command line, which writes one JSON object per line: its progress, or why it failed.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specdec_core.foundations import errors
from specdec_core.foundations.errors import DownloadRefused, ModelError

from .models import ModelChoice

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
_running: set[subprocess.Popen[str]] = set()


def prepare(choice: ModelChoice, on_progress: Callable[[float | None, str], None]) -> None:
    """Convert what the choice needs and this machine only has as a GGUF file; usually there is nothing to do.

    Raises:
        ModelError: one sentence, if it cannot be converted.
    """
    names = [name for name in (choice.target, choice.draft) if name]
    if not names:
        return
    from specdec_core.models.files import sources

    for name in names:
        if sources.unconverted(name):
            _convert(name, on_progress)


def needs(choice: ModelChoice) -> tuple[str, bool]:
    """What the choice's models need of the memory and what is free, as a sentence, and whether that fits.

    Raises:
        ModelError: one sentence, if it is not known.
    """
    arguments = ["memory", str(choice.target), "--device", choice.device, "--dtype", choice.dtype]
    if choice.draft:
        arguments += ["--draft", choice.draft]
    for message in _messages(arguments, lambda: False):
        if "said" in message:
            return str(message["said"]), bool(message["fits"])
    raise ModelError("What these models need of the memory is not known.")


def inspect(name: str) -> dict[str, Any]:
    """What is in the files of a model or a head, as `specdec_measure.inspect.Report` has it.

    Raises:
        ModelError: one sentence, if there is nothing that could be looked into.
    """
    for message in _messages(["inspect", name], lambda: False):
        if "verdict" in message:
            return message
    raise ModelError("What is in these files is not known.")


def close() -> None:
    """End what is running; partial output is never taken for complete."""
    for process in list(_running):
        process.kill()


atexit.register(close)


def fetch(
    name: str, most: int, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
) -> None:
    """Download what a name needs from the hub, reporting the bytes so far and in all.

    Raises:
        ModelError: one sentence, if it cannot be had.
        DownloadRefused: if it is larger than `most` bytes, or was cancelled; what has come is kept for the next try.
    """
    for message in _messages(["models", "--fetch", name, "--most-gb", str(most / 1e9)], cancelled):
        if "done" in message:
            on_progress(int(message["done"]), int(message["total"]))
    if cancelled():
        raise DownloadRefused(f"The download of {name} was stopped.")


def _convert(name: str, report: Callable[[float | None, str], None]) -> None:
    report(0.0, "Converting the weights, once")
    for message in _messages(["models", "--prepare", name], lambda: False):
        if "words" in message:
            report(message["fraction"], str(message["words"]))


def _messages(arguments: Sequence[str], cancelled: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Run the core's command line and yield its messages until its end, or until it is cancelled.

    Raises:
        ModelError: its sentence, if it fails.
    """
    with _process(arguments) as process:
        for line in _lines(process, cancelled):
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):  # a library's own output
                log.info("%s: %s", " ".join(arguments), line.rstrip())
            elif "error" in message:
                raise getattr(errors, str(message.get("kind")), ModelError)(str(message["error"]))
            else:
                yield message
        if not cancelled() and (code := process.wait()):
            raise ModelError(
                f"Preparing the model ended too early (exit code {code}), perhaps for lack of memory. "
                "Choose these models again to retry."
            )


@contextmanager
def _process(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "specdec_core", *arguments, "--progress", "json"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    _running.add(process)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        _running.discard(process)


def _lines(process: subprocess.Popen[str], cancelled: Callable[[], bool]) -> Iterator[str]:
    """Its lines as they are written. A thread waits for them, so that a silent process can be cancelled too."""
    written: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                written.put(line)
        written.put(None)

    threading.Thread(target=listen, name="preparing", daemon=True).start()
    while not cancelled():
        try:
            line = written.get(timeout=0.1)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line
