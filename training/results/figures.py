"""What do the proposers gain with the shipped models? Tokens per pass and speedups, all in one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import specdec_core as sd
from specdec_core.runtime.timing import width_curve as hardware
from specdec_measure import theory
from specdec_measure.records.repeats import LOOP, RUN
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import sweep
from specdec_measure.sweep.totals import MIN_TOKENS, wilson
from training.results.reading import load_prompts

TOKENS = 128
EXIT_LAYERS = (2, 3, 4, 6, 8)
GAMMA = 4


@dataclass(frozen=True)
class Lane:
    """One proposer with its settings, and its name on the card."""

    name: str
    settings: sd.Settings


def lane(name: str, proposer: str, gamma: int = GAMMA, **options: Any) -> Lane:
    """A greedy lane of `TOKENS` tokens."""
    settings = sd.Settings(proposer=proposer, draft_length=gamma, max_new_tokens=TOKENS, options=options)
    return Lane(name, settings)


def warm(each: Lane) -> Lane:
    """The same lane at temperature 1."""
    return Lane(each.name, each.settings.but(temperature=1.0))


LANES = (
    lane("draft-model", "draft-model"),
    lane("draft-model, larger", "draft-model", draft="larger"),
    lane("prompt-lookup", "prompt-lookup", gamma=10),
    lane("lookahead", "lookahead"),
    lane("branching", "branching"),
    lane("medusa", "medusa"),
    lane("eagle", "eagle"),
)
# measured where they ship
LATER = (lane("eagle3", "eagle3"), lane("mtp", "mtp"), lane("block", "block", gamma=7))


@dataclass(frozen=True)
class Prompt:
    """A shipped prompt: `kind` parts verbatim edits from conversions; `repeated` is its continuation's share of
    repeated tokens."""

    case: Case
    kind: str
    repeated: float
    tokens: int

    @property
    def enters(self) -> bool:
        """Whether its figures count."""
        return self.repeated < LOOP and self.tokens >= MIN_TOKENS


def read_prompts(models: sd.Models, folder: Path) -> list[Prompt]:
    """The shipped prompts with their plain continuations."""
    found = []
    plain = sd.Settings(proposer="none", max_new_tokens=TOKENS, record="off")
    for family, content in load_prompts(folder).items():
        for prompt in content["prompt"]:
            loops = sd.decode(models, prompt["text"], plain).loops()
            case = Case(family, prompt["name"], prompt["text"])
            found.append(Prompt(case, prompt.get("kind", ""), loops.share, loops.tokens))
    return found


def measure(
    models: sd.Models,
    folder: Path,
    repeats: int = 3,
    store: Path | None = None,
    on_prompt: Callable[[str], None] = print,
) -> dict[str, Any]:
    """All figures, as plain values for JSON.

    `store` keeps the rows as they come, so that an interrupted run can resume.
    """
    prompts = read_prompts(models, folder)
    layer, exits = best_exit(
        models, [p.case for p in prompts if p.case.family == "code" and p.enters], repeats, on_prompt
    )
    shipped = [each for each in LATER if sd.PROPOSERS[each.settings.proposer].why_not(models) is None]
    lanes = [*LANES, *shipped, lane("early-exit", "early-exit", layer=layer)]
    rows = rows_of(models, [prompt.case for prompt in prompts], lanes, repeats, store, on_prompt)
    curves = {
        which: curve_of(models, which)
        for which in ("usual", "larger")
        if which == "usual" or models.larger_draft
    }
    families = list(dict.fromkeys(prompt.case.family for prompt in prompts))
    entering = [prompt for prompt in prompts if prompt.enters]
    groups = {family: [p for p in entering if p.case.family == family] for family in families}
    groups["verbatim edits"] = [p for p in entering if p.kind == "verbatim edit"]
    groups["conversions"] = [p for p in entering if p.kind == "conversion"]
    summaries = {name: summarise(cases, rows, lanes) for name, cases in groups.items() if cases}
    # Verse at temperature 0 is mostly loops, which do not count; at temperature 1 it is not.
    verse = [prompt for prompt in prompts if prompt.case.family == "poem"]
    drawn = [warm(each) for each in lanes]
    hot = rows_of(models, [prompt.case for prompt in verse], drawn, repeats, None, on_prompt)
    summaries["poem, temperature 1"] = summarise(verse, hot, drawn)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": models.machine,
        "tokens": TOKENS,
        "repeats": repeats,
        "prompts": [
            asdict(prompt.case) | {"repeated": prompt.repeated, "tokens": prompt.tokens} for prompt in prompts
        ],
        "loop": {"run": RUN, "share": LOOP},
        "entering": len(entering) / len(prompts),
        "exits": exits,
        "curves": {which: asdict(curve) for which, curve in curves.items()},
        "groups": summaries,
        "formula": formula(rows, entering, curves["usual"]),
        "slower": losses(rows, prompts),
    }


def rows_of(
    models: sd.Models,
    cases: list[Case],
    lanes: Sequence[Lane],
    repeats: int,
    store: Path | None,
    on_prompt: Callable[[str], None],
) -> list[MeasuredCase]:
    """All cells, plain decoding in every turn."""
    settings = [each.settings for each in lanes]
    plain = settings[0].but(proposer="none", options={})
    labels = ["plain", *(each.name for each in lanes)]
    rows = []
    for row in sweep(models, cases, [plain, *settings], labels=labels, repeats=repeats, store=store):
        if row.error:
            raise ValueError(f"{row.family} / {row.name}, {row.label}: {row.error}")
        if row.lane == 0 and row.repeat == 0:
            on_prompt(f"{row.family} / {row.name}")
        rows.append(row)
    return rows


def best_exit(
    models: sd.Models, cases: list[Case], repeats: int, on_prompt: Callable[[str], None]
) -> tuple[int, dict[str, dict[str, float]]]:
    """The exit layer that is fastest on code, and the speedup of each."""
    lanes = [lane(str(layer), "early-exit", layer=layer) for layer in EXIT_LAYERS]
    rows = rows_of(models, cases, lanes, repeats, None, on_prompt)
    names = [(case.family, case.name) for case in cases]
    found = {each.name: line(rows, names, each.name) for each in lanes}
    best = max(EXIT_LAYERS, key=lambda layer: found[str(layer)]["speedup"] or 0.0)
    return best, found


def curve_of(models: sd.Models, which: str) -> hardware.WidthCurve:
    """T(n) of the target and the time of a draft pass, in this process."""
    return hardware.width_curve(models.drafting(which), prefix=200, budget_s=3.0)


def line(rows: list[MeasuredCase], names: list[tuple[str, str]], label: str) -> dict[str, Any]:
    """Medians over prompts of one lane: tokens per pass, speedup against plain decoding in the same turn, pooled α."""
    by_turn = {(row.turn, row.label): row for row in rows}
    passes, speedups, low, high = [], [], math.inf, -math.inf
    accepted = judged = 0
    for name in names:
        mine = [row for row in rows if row.label == label and (row.family, row.name) == name]
        ratios = []
        for row in mine:
            plain = by_turn[row.turn, "plain"]
            ratios.append(plain.seconds / plain.tokens / (row.seconds / row.tokens))
        passes.append(median(row.tokens_per_pass or 1.0 for row in mine))
        speedups.append(median(ratios))
        low, high = min(low, speedups[-1]), max(high, speedups[-1])
        if mine[0].acceptance_rate is not None:
            accepted, judged = accepted + mine[0].accepted, judged + mine[0].accepted + mine[0].rejected
    return {
        "prompts": len(names),
        "tokens_per_pass": median(passes),
        "speedup": median(speedups),
        "speedup_low": low,
        "speedup_high": high,
        "alpha": accepted / judged if judged else None,
        "alpha_interval": wilson(accepted, judged) if judged else None,
    }


def summarise(prompts: list[Prompt], rows: list[MeasuredCase], lanes: Sequence[Lane]) -> dict[str, Any]:
    """One line per lane for a group of prompts, and which of them is fastest."""
    names = [(prompt.case.family, prompt.case.name) for prompt in prompts]
    found = {each.name: line(rows, names, each.name) for each in lanes}
    return {"lanes": found, "best": max(found, key=lambda name: found[name]["speedup"])}


def formula(rows: list[MeasuredCase], prompts: list[Prompt], curve: hardware.WidthCurve) -> dict[str, float]:
    """Measured speedup of the draft model over the width-aware formula with this run's own α, T(n) and T_d, by prompt.

    The formula leaves out all work around the models, so it is an upper bound of what this α can bring.
    """
    by_turn = {(row.turn, row.label): row for row in rows}
    names = {(prompt.case.family, prompt.case.name) for prompt in prompts}
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.label != "draft-model" or (row.family, row.name) not in names or row.acceptance_rate is None:
            continue
        plain = by_turn[row.turn, "plain"]
        measured = plain.seconds / plain.tokens / (row.seconds / row.tokens)
        expected = theory.tokens_per_pass(row.acceptance_rate, GAMMA)
        predicted = theory.speedup_on(curve.table, expected, GAMMA, curve.draft_s or 0.0)
        ratios.setdefault((row.family, row.name), []).append(measured / predicted)
    medians = sorted(median(values) for values in ratios.values())
    return {"median": median(medians), "low": medians[0], "high": medians[-1], "prompts": len(medians)}


def losses(rows: list[MeasuredCase], prompts: list[Prompt]) -> list[dict[str, Any]]:
    """The prompts on which a lane was slower than plain decoding, each with those lanes."""
    found = []
    for prompt in prompts:
        name = (prompt.case.family, prompt.case.name)
        labels = dict.fromkeys(row.label for row in rows if row.lane)
        slow = {label: line(rows, [name], label)["speedup"] for label in labels}
        slow = {label: value for label, value in slow.items() if value < 1.0}
        if slow:
            found.append({"family": name[0], "name": name[1], "lanes": slow})
    return found
