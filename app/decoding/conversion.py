"""Conversions in a separate process: they would hold the GIL for seconds and leave memory allocated.

The process is the core's command line, which writes one JSON object per line: its progress, or why it failed.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from specdec_core.errors import ModelError

from .models import Choice

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
_running: set[subprocess.Popen[str]] = set()


def prepare(choice: Choice, report: Callable[[float | None, str], None]) -> None:
    """Convert what the choice needs and this machine only has as a GGUF file; usually there is nothing to do.

    Raises:
        ModelError: one sentence, if it cannot be converted.
    """
    names = [name for name in (choice.target, choice.draft) if name]
    if not names:
        return
    from specdec_core.models import sources

    for name in names:
        if sources.unconverted(name):
            _convert(name, report)


def close() -> None:
    """End running conversions; partial output is never taken for complete."""
    for process in list(_running):
        process.terminate()


atexit.register(close)


def _convert(name: str, report: Callable[[float | None, str], None]) -> None:
    report(0.0, "Converting the weights, once")
    process = subprocess.Popen(
        [sys.executable, "-m", "specdec_core", "models", "--prepare", name, "--progress", "json"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    _running.add(process)
    refusal = None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                message = json.loads(line)
                refusal = message.get("error", refusal)
                if "words" in message:
                    report(message["fraction"], str(message["words"]))
            except (ValueError, AttributeError, KeyError):  # a library's own output
                log.info("conversion of %s: %s", name, line.rstrip())
        code = process.wait()
    finally:
        process.kill()
        process.communicate()
        _running.discard(process)
    if refusal is not None:
        raise ModelError(str(refusal))
    if code:
        raise ModelError(
            f"The conversion of its weights ended too early (exit code {code}), perhaps for lack of memory. "
            "Choose these models again to retry."
        )
