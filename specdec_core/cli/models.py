"""`python -m specdec_core models --prepare`: convert a model now, and report progress."""

from __future__ import annotations

import json
import sys

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from specdec_core.errors import SpecdecError
from specdec_core.models.sources import locate

from .render import err


def prepare(name: str, json_lines: bool) -> None:
    """Convert the model of that name into the cache, if needed, with a progress bar or with JSON lines for a program.

    Raises:
        SpecdecError: if it cannot be converted; as JSON it is a line, `{"error": sentence}`, and the end.
    """
    if json_lines:
        _report_lines(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=1.0)

        def report(fraction: float | None, words: str) -> None:
            bar.update(task, completed=fraction, description=words)

        found = locate(name, report)
    err.print(Text(f"'{name}' is ready." if found != name else f"'{name}' needs no conversion."))


def _report_lines(name: str) -> None:
    def write_line(**facts: object) -> None:
        print(json.dumps(facts), flush=True)

    try:
        locate(name, lambda fraction, words: write_line(fraction=fraction, words=words))
    except SpecdecError as error:
        write_line(error=str(error))
        sys.exit(1)
