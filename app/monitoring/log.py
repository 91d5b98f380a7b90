"""The server's log: readable lines, or JSON for a program that collects logs."""

from __future__ import annotations

import logging
import os


def start() -> None:
    """Write the log to standard error: readable lines, or a JSON object a line if SPECDEC_LOG is json."""
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


def join() -> None:
    """Have the web server's own lines written as all others are; called once it has set up its log."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.split(".")[0] in ("uvicorn", "streamlit") and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True


def as_json() -> bool:
    """Whether the operator asked for JSON."""
    return os.environ.get("SPECDEC_LOG", "").strip() == "json"
