"""`python -m specdec_core models --prepare` and `--fetch`: convert or download a model now, and report progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from specdec_core.errors import SpecdecError
from specdec_core.models.sources import fetch, locate

from .render import err


def prepare(name: str, json_lines: bool) -> None:
    """Convert the model of that name into the cache, if needed, with a progress bar or with JSON lines for a program.

    Raises:
        SpecdecError: if it cannot be converted; as JSON it is a line, `{"error": sentence}`, and the end.
    """
    if json_lines:
        with _error_as_line():
            locate(name, lambda fraction, words: _write_line(fraction=fraction, words=words))
        return
    with _bar() as bar:
        task = bar.add_task("", total=1.0)

        def report(fraction: float | None, words: str) -> None:
            bar.update(task, completed=fraction, description=words)

        found = locate(name, report)
    err.print(Text(f"'{name}' is ready." if found != name else f"'{name}' needs no conversion."))


def download(name: str, most: int | None, json_lines: bool) -> None:
    """Download what the model of that name needs from the hub; progress and errors as in `prepare`.

    Args:
        most: the largest download of one model that is allowed, in bytes.
    """
    if json_lines:
        with _error_as_line():
            fetch(name, lambda done, total: _write_line(done=done, total=total), most)
        return
    with _bar() as bar:
        task = bar.add_task(f"Downloading {name}", total=None)
        fetch(name, lambda done, total: bar.update(task, completed=done, total=total), most)
    err.print(Text(f"'{name}' is here."))


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    return Progress(*columns, console=err, transient=True)


def _write_line(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


@contextmanager
def _error_as_line() -> Iterator[None]:
    try:
        yield
    except SpecdecError as error:
        _write_line(error=str(error), kind=type(error).__name__)
        sys.exit(1)
