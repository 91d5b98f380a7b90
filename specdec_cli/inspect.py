"""`inspect`: what is in a model's or a head's files."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from specdec_core.foundations.errors import SpecdecError

from .common import check_progress
from .render import out, sentences, shown


def inspect(
    path: Annotated[str, typer.Argument(help="A folder with a head or a model, a GGUF file, or a hub id.")],
    target: Annotated[
        str | None,
        typer.Option(help="Of a head, the model that it is meant for: whether the two fit is checked."),
    ] = None,
    progress: Annotated[str, typer.Option(help="bar, or json for one object on standard output.")] = "bar",
) -> None:
    """What is in these files: who wrote them, what each tensor is for, and what is done with them here."""
    with sentences():
        check_progress(progress)
        from specdec_measure.inspect import inspect as look

        try:
            report = look(path, target)
        except SpecdecError as error:
            if progress != "json":
                raise
            print(json.dumps({"error": str(error), "kind": type(error).__name__}), flush=True)
            sys.exit(1)
    if progress == "json":
        print(json.dumps(report.as_json()), flush=True)
        return
    out.print(Text(shown(f"'{report.name}' holds {report.title}."), style="bold"))
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in report.facts:
        facts.add_row(shown(name), shown(value))
    out.print(facts)
    parts = Table("What for", "Tensors", "Names", "Numbers", "Stored as", box=SIMPLE_HEAD)
    for part in report.parts:
        parts.add_row(
            part.purpose, f"{part.tensors:,}", shown(part.names), f"{part.parameters:,}", shown(part.dtype)
        )
    if report.parts:
        out.print(parts, soft_wrap=False)
    out.print(Text(shown(report.verdict)))
