"""`python -m specdec_core models --prepare` and `--fetch`: convert or download a model now, and report progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from specdec_core.foundations.errors import SpecdecError
from specdec_core.models import catalogue
from specdec_core.models.files import hub
from specdec_core.models.files.sources import fetch, is_there, locate, resolve
from specdec_core.models.gguf_files import convert as gguf
from specdec_core.models.gguf_files import header as gguf_header

from .render import err


def check_together(prepare: str | None, fetch: str | None, most_gb: float | None, delete: str | None) -> None:
    """Refuse options that would be ignored beside each other.

    Raises:
        SpecdecError: one sentence.
    """
    other = "--prepare" if prepare is not None else "--fetch" if fetch is not None else None
    if delete is not None and other is not None:
        raise SpecdecError(f"--delete does not go together with {other}. Give one of them at a time.")
    if most_gb is None:
        return
    if fetch is None:
        raise SpecdecError(
            "--most-gb limits a download and needs --fetch. Give --fetch, or leave --most-gb out."
        )
    if not math.isfinite(most_gb):
        raise SpecdecError(f"--most-gb is a number of gigabytes, got {most_gb}. Leave it out for no limit.")


def check_known(name: str) -> None:
    """Refuse what cannot be a model: a name that means nothing here, or a folder without one.

    Raises:
        SpecdecError: one sentence.
    """
    where = resolve(name)
    if is_there(where, Path.is_dir):
        if not (Path(where) / "config.json").is_file() and gguf.find(Path(where)) is None:
            raise SpecdecError(
                f"The folder '{name}' holds no model: neither a config.json nor a GGUF file. Choose another folder."
            )
        return
    file = name.lower().endswith(gguf_header.SUFFIX) or is_there(
        name, Path.is_file
    )  # which the conversion checks
    if not file and catalogue.find(name) is None and hub.HUB_FILE.fullmatch(name) is None:
        raise SpecdecError(
            f"There is no model '{name}': it is neither a catalogue name, nor a folder or GGUF file here, nor a hub id "
            "as owner/name. The command 'models' lists the names."
        )


def prepare(name: str, json_lines: bool) -> None:
    """Convert the model of that name into the cache, if needed, with a progress bar or with JSON lines for a program.

    Raises:
        SpecdecError: if it cannot be converted; as JSON it is a line, `{"error": sentence}`, and the end.
    """
    if json_lines:
        with _error_as_line():
            check_known(name)
            locate(name, lambda fraction, words: _write_line(fraction=fraction, words=words))
        return
    check_known(name)
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
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
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
