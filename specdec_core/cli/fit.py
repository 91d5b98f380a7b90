"""`fit`: from a model and one's own prompts to a tested configuration."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from specdec_core.errors import PromptError, SettingsError

from .common import load
from .options import Shared
from .render import err, out, shown

if TYPE_CHECKING:
    from specdec_core.fitting import Fit
    from specdec_core.models.bundle import Models

SOUGHT = {
    "option": "--option", "draft_length": "--draft-length", "length_policy": "--length-policy",
    "length_option": "--length-option", "overlap": "--overlap", "rule": "--rule", "rule_option": "--rule-option",
    "memory_budget_mb": "--memory-budget-mb",
}  # fmt: skip


def fit(
    shared: Shared,
    prompts: Annotated[
        Path,
        typer.Option(
            help="Your prompts: .txt with one a line, .jsonl, .csv with a column 'prompt', or a folder of .txt and .md "
            "files. Half of them only test the choice; twenty are a good number."
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="The folder to write; a fit in it continues.")],
    minutes: Annotated[float, typer.Option(help="How long it may take, without loading the models.")] = 15.0,
    wish: Annotated[
        str,
        typer.Option(
            help="latency: the least time for one request, measured. throughput: the most tokens per second for many "
            "requests at a time, calculated from measured passes."
        ),
    ] = "latency",
    requests: Annotated[int, typer.Option(min=1, help="With throughput: how many requests at a time.")] = 8,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Try rules that change the text's distribution as well.")
    ] = False,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Train the draft further on some of the prompts.")
    ] = True,
) -> None:
    """Find the fastest way to decode your own prompts with a model, tested on prompts held back from the search."""
    usual = Shared()
    for name, option in SOUGHT.items():
        if getattr(shared, name) != getattr(usual, name):
            raise SettingsError(
                f"A fit looks for the best {option[2:].replace('-', ' ')} itself: leave {option} out."
            )
    _check_paths(prompts, folder)
    from specdec_core.fitting.prompts import read

    read(prompts)  # a file that is wrong is refused before the models are loaded
    models = load(shared.model, shared.draft, device=shared.device, dtype=shared.dtype, **shared.parts)
    asked = {"minutes": minutes, "wish": wish, "requests": requests, "lossy": lossy, "train": train}
    found = _watched(models, shared, prompts, folder, asked)
    out.print(Text(shown(found.sentence[:1].upper() + found.sentence[1:])))
    err.print(
        Text(f"wrote {folder}: config.json, table.csv, report.html" + (", trace.json" if found.whole else ""))
    )
    if not found.whole:
        err.print("stopped; the same command continues from there.")
        raise typer.Exit(130)


def _check_paths(prompts: Path, folder: Path) -> None:
    """Refuse prompts that are not there and a folder that cannot be made, before anything heavy is imported."""
    if prompts.suffix.lower() in (".txt", ".jsonl", ".csv") and not prompts.exists():
        raise PromptError(
            f"The prompts could not be read from '{prompts}': No such file or directory. Check the path."
        )
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise SettingsError(
            f"The fit needs a folder for --out, and '{there}' is a file. Choose another folder."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise SettingsError(f"Nothing can be written in '{there}', which --out needs. Choose another folder.")


def _watched(models: Models, shared: Shared, prompts: Path, folder: Path, asked: dict[str, Any]) -> Fit:
    """Fit, with a progress bar."""
    from specdec_core.fitting import Progress, fit

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=err, transient=True) as bar, _interrupts() as pressed:
        task = bar.add_task("beginning", total=60.0 * asked["minutes"], left="")

        def on_progress(ahead: Progress) -> None:
            left = max(0.0, ahead.budget - ahead.spent)
            words = Text(shown(f"{ahead.phase}: {ahead.words}")).plain
            bar.update(task, description=words, completed=ahead.spent, left=f"{left / 60:.1f} min left")

        return fit(
            models, prompts, folder,
            settings=shared.plain(), chat=shared.chat is not False, system=shared.system, load=_loading(shared),
            cancelled=lambda: bool(pressed), on_progress=on_progress, **asked,
        )  # fmt: skip


def _loading(shared: Shared) -> dict[str, str]:
    """What `load_models` was given, by parameter."""
    given: dict[str, Any] = {
        "target": shared.model or "bundled", "draft": shared.draft, **shared.parts,
        "device": None if shared.device == "auto" else shared.device,
        "dtype": None if shared.dtype == "auto" else shared.dtype,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The first Ctrl+C is noted, and the fit ends with what it knows; the second ends the program."""
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
