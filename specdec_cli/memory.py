"""`memory`: what a model needs, before it is downloaded or loaded."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from specdec_core.foundations.errors import SpecdecError

from .common import check_paths, check_progress
from .render import out, sentences


def memory(
    model: Annotated[str, typer.Argument(help="The target: a catalogue name, a hub id or a folder.")],
    draft: Annotated[
        str | None,
        typer.Option("--draft", "-d", help="The draft; by default the catalogue's own for this target."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    progress: Annotated[str, typer.Option(help="bar, or json for one object on standard output.")] = "bar",
) -> None:
    """How much memory a model needs and how much is free, before anything is downloaded; fails if it does not fit."""
    with sentences():
        check_progress(progress)
        if progress != "json":  # a program may show what it reads, and not everyone may see the whole path
            check_paths(model, draft)
        from specdec_core.models.memory import ahead
        from specdec_core.runtime.machine import choose_device, choose_dtype

        try:
            chosen = choose_device(device)
            sentence, fits = ahead(model, draft, chosen, choose_dtype(dtype, chosen))
        except SpecdecError as error:
            if progress != "json":
                raise
            print(json.dumps({"error": str(error), "kind": type(error).__name__}), flush=True)
            sys.exit(1)
        if progress == "json":
            print(json.dumps({"said": sentence, "fits": fits}), flush=True)
        elif fits:
            out.print(sentence, markup=False)
        else:
            raise SpecdecError(sentence)
