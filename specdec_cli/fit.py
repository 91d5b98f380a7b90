"""`fit`: from a model and one's own prompts to a tested configuration."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from specdec_core.foundations.errors import PromptError, SettingsError

from .common import load
from .options import SharedOptions
from .render import err, out, shown

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_measure.fitting import Fit, FitProgress

EVERY_S = 30.0  # between two lines of progress, at the most
SOUGHT = {
    "option": "--option", "draft_length": "--draft-length", "length_policy": "--length-policy",
    "length_option": "--length-option", "overlap": "--overlap", "rule": "--rule", "rule_option": "--rule-option",
    "memory_budget_mb": "--memory-budget-mb",
}  # fmt: skip


def fit(
    shared: SharedOptions,
    prompts: Annotated[
        Path,
        typer.Option(
            help="Your prompts, at least 4: .txt with one a line, .jsonl, .csv with a column 'prompt', or a folder of "
            ".txt and .md files. Half of them only test the choice: with fewer than 11 a fit can call nothing faster, "
            "and twenty are a good number."
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
    requests: Annotated[
        int | None,
        typer.Option(min=1, help="With throughput: how many requests at a time; 8 if left out."),
    ] = None,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Try rules that change the text's distribution as well.")
    ] = False,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Train the draft further on some of the prompts.")
    ] = True,
) -> None:
    """Find the fastest way to decode your own prompts with a model, tested on prompts held back from the search."""
    usual = SharedOptions()
    for name, option in SOUGHT.items():
        if getattr(shared, name) != getattr(usual, name):
            raise SettingsError(
                f"A fit looks for the best {option[2:].replace('-', ' ')} itself: leave {option} out."
            )
    _check_paths(prompts, folder)
    asked = _asked(prompts, minutes, wish, requests) | {"lossy": lossy, "train": train}
    if not err.is_terminal:
        err.print("loading the models")
    models = load(shared.model, shared.draft, device=shared.device, dtype=shared.dtype, **shared.parts)
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


def _asked(prompts: Path, minutes: float, wish: str, requests: int | None) -> dict[str, Any]:
    """What is asked for, checked before the models are loaded; a note where the prompts are few."""
    from specdec_measure.fitting.prompts import few, read
    from specdec_measure.fitting.run import check_asked

    if requests is not None and wish == "latency":
        raise SettingsError(
            "--requests counts for throughput only: add --wish throughput, or leave --requests out."
        )
    requests = 8 if requests is None else requests
    check_asked(minutes, wish, requests)
    if note := few(len(read(prompts))):
        err.print(Text.assemble(("note: ", "bold yellow"), note))
    return {"minutes": minutes, "wish": wish, "requests": requests}


def _watched(
    models: Models, shared: SharedOptions, prompts: Path, folder: Path, asked: dict[str, Any]
) -> Fit:
    """Fit, with a progress bar on a terminal and with lines elsewhere."""
    from specdec_measure.fitting import fit

    with _interrupts() as pressed, _Bar(asked["minutes"]) if err.is_terminal else _Lines() as watch:

        def cancelled() -> bool:
            watch.tick()
            return bool(pressed)

        return fit(
            models, prompts, folder,
            settings=shared.plain(), chat=shared.chat is not False, system=shared.system, load=_loading(shared),
            cancelled=cancelled, on_progress=watch.show, **asked,
        )  # fmt: skip


class _Lines(AbstractContextManager["_Lines"]):
    """Progress as plain lines: one for each stage, and one whenever `EVERY_S` have passed."""

    def __init__(self) -> None:
        self._ahead: FitProgress | None = None
        self._said = 0.0

    def __exit__(self, *raised: object) -> None:
        pass

    def show(self, ahead: FitProgress) -> None:
        """Receive the progress."""
        new = self._ahead is None or ahead.phase != self._ahead.phase
        self._ahead = ahead
        if new:
            self._say(ahead)
        else:
            self.tick()

    def tick(self) -> None:
        """Called within rounds: the time may have come for another line."""
        if self._ahead is not None and time.monotonic() - self._said >= EVERY_S:
            self._say(self._ahead)

    def _say(self, ahead: FitProgress) -> None:
        self._said = time.monotonic()
        err.print(Text(_words(ahead) + f" ({_left(ahead)})"), soft_wrap=True)


class _Bar(AbstractContextManager["_Bar"]):
    """Progress as a bar."""

    def __init__(self, minutes: float) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bar = Bar(*columns, console=err, transient=True)
        self._task = self._bar.add_task("beginning", total=60.0 * minutes, left="")

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def show(self, ahead: FitProgress) -> None:
        """Receive the progress."""
        from specdec_measure.fitting.run import CONTINUED

        if ahead.phase == CONTINUED:
            err.print(Text(_words(ahead) + f" ({_left(ahead)})"))
        self._bar.update(self._task, description=_words(ahead), completed=ahead.spent, left=_left(ahead))

    def tick(self) -> None:
        """The bar moves by itself."""


def _words(ahead: FitProgress) -> str:
    return Text(shown(f"{ahead.phase}: {ahead.words}")).plain


def _left(ahead: FitProgress) -> str:
    return f"{max(0.0, ahead.budget - ahead.spent) / 60:.1f} min left"


def _loading(shared: SharedOptions) -> dict[str, str]:
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
