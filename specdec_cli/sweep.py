"""What the command `sweep` reads and prints: lanes as one word each, a progress bar, the matrix at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from specdec_core.engine.choice import usual
from specdec_core.foundations.errors import PromptError, SpecdecError
from specdec_core.settings import Settings
from specdec_measure.sweep import cases as sources
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.lanes import about, complete
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress as Ahead
from specdec_measure.sweep.run import sweep as cells
from specdec_measure.sweep.totals import MIN_TOKENS, failures, looping, mark, summary, to_csv, to_json

from .common import check_writable, load, print_generation, write
from .options import LANE_HELP, SharedOptions
from .options import lanes_of as named_lanes
from .render import err, out, shown

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

MAX_HEADER = 1_000_000  # bytes of a store's first line that are looked at
FAILURES = 5  # are listed one by one


def sweep(
    shared: SharedOptions,
    lane: Annotated[
        list[str] | None,
        typer.Option(
            "--lane",
            "-l",
            help=LANE_HELP,
        ),
    ] = None,
    families: Annotated[
        str | None,
        typer.Option(
            help="Families of shipped prompts, separated by commas; by default all that suit these models."
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help='Your own prompts: JSONL, {"prompt": …, "family": …, "name": …}; \'-\' reads standard input.'
        ),
    ] = None,
    per_family: Annotated[
        int | None, typer.Option(min=1, help="At most this many shipped prompts of each family.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=20, help="How many times each cell is timed.")] = 3,
    store: Annotated[
        Path | None, typer.Option("--out", help="Keep each measured cell in this file, and continue from it.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(help="Write all cells to this file; '-' for standard output.")
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(help="Write cells, summary and surroundings to this file; '-' for standard output."),
    ] = None,
) -> None:
    """Measure families of prompts in several lanes, plain decoding always among them: where does guessing pay?"""
    lanes = lanes_of(shared, lane or ["draft-model", "prompt-lookup"])
    cases = cases_of(families, prompts, per_family)
    check_writable(csv, "table of cells")
    check_writable(json, "sweep's results")
    check_store(store)
    quiet = "-" in (csv, json)
    family = load(shared.model, shared.draft, device=shared.device, dtype=shared.dtype, **shared.parts)
    if families is None and prompts is None and family.chat_template and shared.chat is not False:
        cases = sources.shipped(None, per_family, "chat")
    cases = sources.fitted(cases, family.chat_template and shared.chat is not False, shared.system)
    print_generation(family, lanes[0], "-" if quiet else None)
    rows, whole = measure(family, cases, lanes, repeats, store, quiet)
    if rows and not quiet:
        show(rows, family.machine)
        recommend(rows, lanes)
    for file, text in exports(family, lanes, rows, csv, json):
        write(text, file, "sweep's results")
    if not whole:
        raise stopped(rows, len(cases) * len(lanes) * repeats, store)


def check_store(store: Path | None) -> None:
    """Refuse a file that cannot keep a sweep's cells, before models are loaded; what it holds is compared later.

    Raises:
        SpecdecError: one sentence.
    """
    if store is None:
        return
    check_writable(str(store), "sweep's measurements")
    if store.is_file() and store.stat().st_size:
        with store.open("rb") as file:
            first = file.readline(MAX_HEADER)
        if b'"specdec-sweep"' not in first:
            raise SpecdecError(f"'{store}' is not a sweep's file, and was not changed. Choose another file.")


def lanes_of(shared: SharedOptions, given: Sequence[str]) -> list[Settings]:
    """Plain decoding and the given lanes; see `options.lanes_of`."""
    return [lane for _, lane in named_lanes(shared, given, "sweep")]


def cases_of(families: str | None, file: str | None, per_family: int | None) -> list[Case]:
    """The prompts asked for: shipped families by name, all of them where none is named, and those of a JSONL file.

    Raises:
        PromptError: one sentence.
    """
    named = [name.strip() for name in families.split(",") if name.strip()] if families is not None else None
    found = sources.shipped(named, per_family) if named is not None or file is None else []
    if file is None:
        return found
    try:
        content = sys.stdin.buffer.read() if file == "-" else _bytes(file)
    except OSError as error:
        raise PromptError(
            f"The prompts could not be read from '{file}': {error.strerror or 'unknown error'}."
        ) from None
    return found + [replace(case, chat=True) for case in sources.from_jsonl(content)]


def _bytes(file: str) -> bytes:
    with Path(file).open("rb") as source:
        return source.read(sources.MAX_BYTES + 1)


def measure(
    models: Models, cases: list[Case], lanes: list[Settings], repeats: int, store: Path | None, quiet: bool
) -> tuple[list[MeasuredCase], bool]:
    """Measure, with a progress bar; the rows, and whether they are complete. Ctrl+C stops and keeps the rows."""
    rows: list[MeasuredCase] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=quiet) as progress:
        task = progress.add_task("warming up", total=len(cases) * len(lanes) * repeats)

        def on_progress(ahead: Ahead) -> None:
            words = shown(f"{ahead.case.family}: {ahead.case.name}, {ahead.label}")
            progress.update(task, description=Text(words).plain, completed=ahead.done)

        try:
            for row in cells(models, cases, lanes, repeats=repeats, store=store, on_progress=on_progress):
                rows.append(row)
                progress.update(task, completed=len(rows))
        except KeyboardInterrupt:
            return rows, False
    return rows, True


def show(rows: Sequence[MeasuredCase], machine: str) -> None:
    """The matrix of families and lanes, and what went wrong."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_lines=True)
    lines = summary(rows).to_dict("records")
    labels = {line["lane"]: line["label"] for line in lines if line["lane"] > 0}
    table.add_column("prompts")
    for lane in sorted(labels):
        table.add_column(labels[lane], justify="right")
    cells = {(line["family"], line["lane"]): line for line in lines}
    for family in dict.fromkeys(line["family"] for line in lines):
        count = max(line["prompts"] for line in lines if line["family"] == family)
        found = [_cell(cells.get((family, lane))) for lane in sorted(labels)]
        table.add_row(Text(f"{shown(family)} ({count})"), *found)
    out.print(table)
    out.print(
        Text(
            f"Measured on {machine}. Speedup against plain decoding in the same turn, median over prompts; in brackets "
            f"the quartiles over prompts. ▲ faster, ▼ slower, = within 0.5%, – fewer than {MIN_TOKENS} tokens. "
            "τ: tokens per target pass. α: accepted of judged, on chains only.",
            style="dim",
        )
    )
    lossy = sorted({row.label for row in rows if "lossy: " in row.label})
    if lossy:
        err.print(
            Text(
                f"lossy: the texts of {'; '.join(lossy)} may not follow the target's distribution.", "yellow"
            )
        )
    if note := looping(lines):
        err.print(Text.assemble(("repeats: ", "bold yellow"), note))
    failed = failures(rows)
    for failure in failed[:FAILURES]:
        err.print(Text.assemble(("failed: ", "bold red"), shown(failure)))
    if len(failed) > FAILURES:
        err.print(Text(f"… and {len(failed) - FAILURES} more; --json has them all."))


def recommend(rows: Sequence[MeasuredCase], lanes: Sequence[Settings]) -> None:
    """Which lane to take, and how sure that is: among the lossless ones whose drafting is on the clock."""
    from specdec_measure.analysis.advice import advise, ineligible

    labels, no_choice = {row.lane: row.label for row in rows}, ineligible(lanes)
    found = advise(rows, [labels.get(number, "") for number in range(len(lanes))], leave_out=no_choice)
    said = found.text if found else "none: no two eligible lanes wrote enough to be compared."
    out.print(Text.assemble(("recommendation: ", "bold"), shown(said)))
    if left_out := [labels[number] for number in no_choice if number in labels]:
        out.print(
            Text(f"not eligible (lossy, or drafting is not counted): {'; '.join(left_out)}", style="dim")
        )


def _cell(line: dict[str, Any] | None) -> Text:
    if line is None or not line["prompts"]:
        return Text("failed" if line else "–")
    cell = Text()
    speedup = line["speedup"]
    if speedup != speedup or speedup is None:
        cell.append("–\n")
    else:
        sign = mark(speedup)
        style = {"▲": "bold green", "▼": "bold red", "=": "bold"}[sign]
        cell.append(f"{sign} {speedup:.2f}×", style=style)
        if line["compared"] > 1:
            cell.append(f" [{line['speedup_q1']:.2f}–{line['speedup_q3']:.2f}]")
        cell.append("\n")
    cell.append(f"τ {line['tokens_per_pass']:.2f}", style="dim")
    if line["alpha"] == line["alpha"] and line["alpha"] is not None:
        cell.append(f"  α {line['alpha']:.0%}", style="dim")
    if line["looping"] == line["looping"] and line["looping"]:
        cell.append(f"\n{line['looping']:.0f} of {line['prompts']} loop", style="yellow")
    return cell


def stopped(rows: Sequence[MeasuredCase], total: int, store: Path | None) -> typer.Exit:
    """Say what is kept after Ctrl+C."""
    kept = (
        f"They are in {store}; the same command continues from there."
        if store is not None
        else "Name a file with --out next time, and a sweep can continue where it stopped."
    )
    err.print(Text(f"stopped after {len(rows)} of {total} cells. {kept}"))
    return typer.Exit(130)


def exports(
    models: Models, lanes: list[Settings], rows: Sequence[MeasuredCase], csv: str | None, json: str | None
) -> list[tuple[str, str]]:
    """The requested files and their contents."""
    files = []
    if csv is not None:
        files.append((csv, to_csv(rows).rstrip("\n")))
    if json is not None:
        files.append((json, to_json(about(models, *complete([usual(models, lane) for lane in lanes])), rows)))
    return files
