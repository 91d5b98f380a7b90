"""The server's log: readable lines, or JSON for a program that collects logs."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import threading
from typing import TextIO

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LEVEL = re.compile(r"\b(WARNING|ERROR|CRITICAL)\b")
START = 100  # characters of a printed line in which its level is looked for
LONGEST_LINE = 10_000  # characters without an end of line, after which one is assumed


def start() -> None:
    """Write the log to standard error: readable lines, or a JSON object a line if SPECDEC_LOG is json; then what
    libraries print, Ray above all, is in such objects too."""
    logging.getLogger("torch").setLevel(logging.WARNING)  # it reports its caches as a process ends
    if not as_json():
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        return
    from pythonjsonlogger.json import JsonFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter(
            "%(levelname)s %(name)s %(process)d %(message)s",
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="time",
            json_ensure_ascii=False,
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    sys.stdout, sys.stderr = Printed("stdout", sys.stdout), Printed("stderr", sys.stderr)


class Printed(io.TextIOBase):
    """Stands in for standard output or error: each line that is printed becomes one of the log."""

    encoding = "utf-8"

    def __init__(self, name: str, stream: TextIO) -> None:
        self._log, self._stream = logging.getLogger(name), stream
        self._of = threading.local()  # each thread's unfinished line, and whether the log itself is printing

    def write(self, text: str) -> int:
        if getattr(self._of, "logging", False):
            return self._stream.write(text)
        *lines, rest = re.split(r"[\r\n]", getattr(self._of, "rest", "") + text)
        self._of.rest = "" if len(rest) > LONGEST_LINE else rest
        self._of.logging = True
        try:
            for line in [*lines, rest] if len(rest) > LONGEST_LINE else lines:
                if bare := COLOUR.sub("", line).strip():
                    found = LEVEL.search(bare, 0, START)
                    self._log.log(getattr(logging, found[0]) if found else logging.INFO, "%s", bare)
        finally:
            self._of.logging = False
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def flush(self) -> None:
        self._stream.flush()


def join() -> None:
    """Have the web server's own lines written as all others are; called once it has set up its log."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.split(".")[0] in ("uvicorn", "streamlit") and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True


def as_json() -> bool:
    """Whether the operator asked for JSON."""
    return os.environ.get("SPECDEC_LOG", "").strip() == "json"
