"""`python -m benchmarks`: our decoder against transformers' own on this machine, as a table and as JSON; against
llama.cpp as well, where llama-cpp-python is installed. `equal`, `peers` and `quality` after it have a file each.

Every figure is measured now, on this machine; a ratio above 1 means ours is faster. Greedy decoding throughout,
and outputs are compared token for token: being fast at writing a different text proves nothing.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from specdec_core.models import catalogue
from specdec_measure import theory

from . import decoding, overhead, passes, subjects
from .decoding import (
    ASSISTED,
    DRAFT,
    DRAFT_OFF,
    GENERATE,
    GENERATE_LOOKUP,
    LOOKUP,
    LOOKUP_TOKENS,
    PLAIN,
    PLAIN_OFF,
    STATIC,
)
from .engines import llama_cpp

WIDTHS = (1, 5, 9, 17)  # compared with llama.cpp's


@dataclass(frozen=True, slots=True)
class Row:
    """One figure with its bound, if there is one."""

    name: str
    value: float
    unit: str
    bound: str = ""
    held: bool | None = None


def at_least(name: str, value: float, bound: float) -> Row:
    """A ratio that must not be below its bound."""
    return Row(name, value, "×", f"≥ {bound:g}", value >= bound)


def main(
    family: Annotated[str, typer.Option(help="A name of the catalogue.")] = catalogue.BUNDLED,
    quick: Annotated[bool, typer.Option(help="One prompt per family, few repetitions.")] = False,
    file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")] = None,
    gamma: Annotated[int, typer.Option(min=1, max=64, help="Draft length.")] = 4,
    length: Annotated[int, typer.Option(min=8, max=512, help="New tokens per call.")] = 96,
) -> None:
    """Measure decoding speed, recording cost, loading and stopping on this machine."""
    console, errors = Console(), Console(stderr=True)
    subject = subjects.load(family)
    where = subjects.surroundings(subject)
    chosen = subjects.prompts(subject, per_family=1 if quick else 4)
    peer = (
        llama_cpp.Peer(subject.target, subject.draft, gamma, LOOKUP_TOKENS) if llama_cpp.installed() else None
    )
    with errors.status("Measuring; leave the machine alone meanwhile.") as status, peer or nullcontext():
        result = decoding.compare(
            subject,
            chosen,
            length=48 if quick else length,
            gamma=gamma,
            repeats=2 if quick else 5,
            on_progress=lambda text: status.update(f"Decoding, {text}"),
            peer=peer,
        )
        status.update("Passes of different widths")
        widths, step = passes.width_curve(subject, 20 if quick else 60)
        theirs = peer.widths((1, subject.default_threads), WIDTHS, 20 if quick else 60) if peer else {}
        stream = passes.streaming(subject, 20 if quick else 60)
        status.update("Rounds outside the models")
        around = overhead.outside(subject, chosen[0], 3 if quick else 9)
        status.update("Loading and stopping")
        other = passes.stopping(subject, chosen[0], 3 if quick else 9)
        if subject.real and not subject.chat:
            other |= passes.loading(1 if quick else 3)

    families = _ratios(result)
    cost = step / widths[1]
    rows = [
        *_rows(families, result, other),
        *_around(around),
        *_limit(widths, stream),
        *(Row(f"T({width}) against llama.cpp's", widths[width] / theirs[width], "×") for width in theirs),
    ]
    _print(console, where, rows, families, widths, cost, gamma, result)
    if file is not None:
        content: dict[str, Any] = {
            "where": where, "rows": [asdict(row) for row in rows], "families": families,
            "by_cpu_time": _by_cpu_time(result),
            "speeds_tokens_per_s": {name: result.speed(name) for name in next(iter(result.timings.values()))},
            "width_curve_s": widths, "width_curve_of_llama_cpp_s": theirs, "draft_step_s": step, "streaming_s": stream,
            "cost_ratio": cost, "threads": result.threads, "mismatches": result.mismatches,
        }  # fmt: skip
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        errors.print(f"Written: {file}")
    # llama.cpp rounds in another order and may take the other of two tokens that are equally likely
    raise typer.Exit(1 if any("llama.cpp" not in line for line in result.mismatches) else 0)


def _against_llama_cpp(result: decoding.Comparison) -> dict[str, dict[str, float]]:
    """Ratios by family, where it was measured."""
    pairs = (
        ("plain / llama.cpp", llama_cpp.PLAIN, PLAIN),
        ("draft / llama.cpp's", llama_cpp.DRAFT, DRAFT),
        ("prompt lookup / llama.cpp's", llama_cpp.LOOKUP, LOOKUP),
    )
    return {name: result.ratio(theirs, ours) for name, theirs, ours in pairs if theirs in result.threads}


def _rows(
    families: dict[str, dict[str, float]], result: decoding.Comparison, other: dict[str, float]
) -> list[Row]:
    def over(name: str) -> float:
        return median(families[name].values())

    code = families["draft / plain"]
    recording = {
        name: 100 * (median(result.ratio(full, off).values()) - 1)
        for name, full, off in (("draft model", DRAFT, DRAFT_OFF), ("plain", PLAIN, PLAIN_OFF))
    }
    rows = [
        at_least("plain, recording, against generate", over("plain / generate"), 1.0),
        Row("the same against its static cache", over("plain / generate, static cache"), "×"),
        at_least("prompt lookup against theirs", over("prompt lookup / theirs"), 1.0),
        Row("draft model against plain, all families", median(code.values()), "×"),
        Row("prompt lookup against plain, all families", over("prompt lookup / plain"), "×"),
    ]
    rows.append(at_least("draft model against assisted generation", over("draft / assisted"), 1.3))
    rows += [
        Row(name.replace(" / ", " against "), median(ratios.values()), "×")
        for name, ratios in families.items()
        if "llama.cpp" in name
    ]
    if "code" in code:
        rows.append(at_least("draft model against plain on code", code["code"], 1.4))
    rows += [
        Row(f"cost of the full record, {name}", value, "%", "≤ 5%", value <= 5)
        for name, value in recording.items()
    ]
    held = other["stop to end"] <= other["one round"]
    rows.append(
        Row("asked to stop until nothing computes", 1e3 * other["stop to end"], "ms", "≤ one round", held)
    )
    rows += [
        Row(name, value * scale, unit)
        for name, scale, unit in (
            ("one round", 1e3, "ms"),
            ("load again", 1.0, "s"),
            ("fresh process to first token", 1.0, "s"),
        )
        if (value := other.get(name)) is not None
    ]
    return rows


def _around(measured: dict[str, tuple[float, float]]) -> list[Row]:
    bounds = {overhead.CHAIN: 1.0, overhead.TREE: 2.5}
    rows = [
        Row(
            name,
            1e3 * seconds,
            "ms",
            f"≤ {bounds[name]:g} ms" if name in bounds else "",
            1e3 * seconds <= bounds[name] if name in bounds else None,
        )
        for name, (seconds, _) in measured.items()
    ]
    shares = {overhead.DRAFTED: 0.05, overhead.TREE: 0.08}
    names = {overhead.DRAFTED: "its share, draft model and γ = 4", overhead.TREE: "its share, tree of 64"}
    for name, bound in shares.items():
        if name in measured:
            share = measured[name][1]
            rows.append(Row(names[name], 100 * share, "%", f"≤ {100 * bound:g}%", share <= bound))
    return rows


def _limit(widths: dict[int, float], stream: float) -> list[Row]:
    return [
        Row("all weights read once by the fastest product", 1e3 * stream, "ms"),
        *(
            Row(f"T({width}) against that", widths[width] / stream, "×")
            for width in (1, 5)
            if width in widths
        ),
    ]


def _by_cpu_time(result: decoding.Comparison) -> dict[str, float]:
    """The same medians by seconds of CPU: not checked against any bound, but less disturbed by other processes."""
    pairs = {
        "plain / generate": (GENERATE, PLAIN),
        "draft / assisted": (ASSISTED, DRAFT),
        "prompt lookup / theirs": (GENERATE_LOOKUP, LOOKUP),
        "draft / plain": (PLAIN, DRAFT),
    }
    decoders = next(iter(result.timings.values()))
    ratios = {
        name: median(result.ratio(*names, "cpu").values())
        for name, names in pairs.items()
        if decoders.keys() >= set(names)
    }
    ratios["full record, draft model"] = median(result.ratio(DRAFT, DRAFT_OFF, "cpu").values())
    ratios["full record, plain"] = median(result.ratio(PLAIN, PLAIN_OFF, "cpu").values())
    return ratios


def _print(
    console: Console,
    where: dict[str, str],
    rows: list[Row],
    families: dict[str, dict[str, float]],
    widths: dict[int, float],
    cost: float,
    gamma: int,
    result: decoding.Comparison,
) -> None:
    for name, value in where.items():
        console.print(f"{name:>13}  {value}", highlight=False)
    if float(where["load"]) > 1.5:
        console.print("[yellow]Other processes kept this machine busy; measure again when it is idle.[/]")
    table = Table(
        "Measured",
        "",
        "Promised",
        title="Medians of whole calls, A B A B in one process",
        title_justify="left",
    )
    for row in rows:
        mark = {True: " ✓", False: " ✗", None: ""}[row.held]
        table.add_row(row.name, f"{row.value:.2f} {row.unit}", row.bound + mark)
    console.print(table)

    names = sorted(next(iter(families.values())))
    title = f"By family, γ = {gamma}; speeds as ratios, above 1 the first is faster"
    table = Table("", *names, title=title, title_justify="left")
    for title, values in families.items():
        table.add_row(title, *(f"{values.get(name, float('nan')):.2f}" for name in names))
    modelled = {name: theory.speedup(rate, gamma, cost) for name, rate in families["acceptance rate"].items()}
    table.add_row("modelled from α, c", *(f"{modelled.get(name, float('nan')):.2f}" for name in names))
    console.print(table)

    table = Table("Tokens in a pass", *(str(width) for width in widths))
    table.add_row("T(n) in ms", *(f"{1e3 * seconds:.2f}" for seconds in widths.values()))
    table.add_row("T(n) / T(1)", *(f"{seconds / widths[1]:.2f}" for seconds in widths.values()))
    console.print(table)
    console.print(f"cost ratio c = T_draft(1) / T_target(1) = {cost:.3f}")
    by_cpu = ", ".join(f"{name} {ratio:.2f}" for name, ratio in _by_cpu_time(result).items())
    console.print(f"by CPU time: {by_cpu}", highlight=False)
    speeds = {name: result.speed(name) for name in next(iter(result.timings.values()))}
    console.print("tokens/s: " + ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items()))
    console.print(f"threads of the others (each its fastest): {result.threads}")
    if result.mismatches:
        console.print(f"[bold red]{len(result.mismatches)} outputs differ:[/]")
        for line in result.mismatches:
            console.print("  " + line, highlight=False)
    else:
        console.print("Every decoder wrote the same tokens on every prompt.")


def _ratios(result: decoding.Comparison) -> dict[str, dict[str, float]]:
    """By family of prompts: how much faster one is than another, and what the guesses were worth."""
    return {
        "plain / generate": result.ratio(GENERATE, PLAIN),
        "plain / generate, static cache": result.ratio(STATIC, PLAIN),
        "draft / assisted": result.ratio(ASSISTED, DRAFT),
        "prompt lookup / theirs": result.ratio(GENERATE_LOOKUP, LOOKUP),
        **_against_llama_cpp(result),
        "draft / plain": result.ratio(PLAIN, DRAFT),
        "prompt lookup / plain": result.ratio(PLAIN, LOOKUP),
        "draft / plain, lane clock": result.ratio(PLAIN, DRAFT, "clock"),
        "acceptance rate": result.rate(0),
        "tokens per pass": result.rate(1),
    }


if __name__ == "__main__":
    if sys.argv[1:2] in (["equal"], ["peers"], ["quality"]):
        import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    else:
        typer.run(main)
