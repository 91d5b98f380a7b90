"""Every candidate of a fit with what it reached, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_measure.sweep.totals import csv_of

from .bench import failures, speeds
from .candidates import Candidate, variants
from .search import KEEP_WITHIN, PROBE, mean
from .verdict import Tested

if TYPE_CHECKING:
    from .run import Fit, FitJob

_NEAR = f"{100 * KEEP_WITHIN:.0f}%"


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate's line in the table.

    Attributes:
        prompts, speedup: of the search; of the scouting where it went no further.
        probed: how many tokens its texts had at the most, where they are the scouting's; None where they are not.
        tested: on the held-back prompts.
        why: what became of it, as a phrase.
    """

    candidate: Candidate
    prompts: int
    speedup: float | None
    probed: int | None
    tested: Tested | None
    why: str

    @property
    def tokens(self) -> int | None:
        """How many tokens its texts in the search had at the most; None where it wrote none."""
        if not self.prompts:
            return None
        return self.candidate.settings.max_new_tokens if self.probed is None else self.probed


def tried(job: FitJob, fit: Fit) -> list[Tried]:
    """All candidates, those that went furthest first."""
    tested = {one.candidate.label: one for one in fit.verdict.tested}
    measured = {cell.candidate for cell in job.bench.state.cells.values()}
    near = [new for one in job.found for new in variants(one, job.lossy) if new.label in measured]
    everyone = {one.label: one for one in (*job.found, *near)}
    lines = [_line(job, fit, one, tested.get(label)) for label, one in everyone.items()]
    places = {label: at for at, label in enumerate(tested)}
    return sorted(
        lines,
        key=lambda line: (
            places.get(line.candidate.label, len(places)),
            line.probed is not None,
            line.speedup is None,
            -(line.speedup or 0.0),
        ),
    )


def _line(job: FitJob, fit: Fit, one: Candidate, tested: Tested | None) -> Tried:
    state = job.bench.state
    found = speeds(state, ("search",), one.label)
    probed = None if found else min(PROBE, job.base.max_new_tokens)
    found = found or speeds(state, ("scouting",), one.label)
    speedup = mean(list(found.values())) if found else None
    return Tried(one, len(found), speedup, probed, tested, _why(job, fit, one, tested))


def _why(job: FitJob, fit: Fit, one: Candidate, tested: Tested | None) -> str:
    state = job.bench.state
    if one.label == fit.verdict.choice.label:
        return "the choice"
    if tested is not None:
        return "a finalist" if tested.pair else "a finalist, not tested"
    if failed := failures(state, one.label):
        return f"failed: {failed[0]}"
    probed, searched = (speeds(state, (stage,), one.label) for stage in ("scouting", "search"))
    for name, labels in state.decided.items():
        if one.label not in labels and name == "families" and probed:
            return f"below {_NEAR} of the best scout's speed"
        if one.label not in labels and name == "families" and _scouted(job, one):
            return f"not tried: its family's scouts were below {_NEAR} of the best scout's speed"
        if one.label not in labels and searched and name.startswith("step"):
            return f"in the worse half at {name.replace('step', 'halving')}"
    return "behind the finalists" if searched else "not reached in time"


def _scouted(job: FitJob, one: Candidate) -> bool:
    """Whether a scout of its family was measured."""
    family = [other.label for other in job.found if other.family == one.family]
    return any(
        cell.stage == "scouting" and cell.candidate in family for cell in job.bench.state.cells.values()
    )


def to_csv(lines: Sequence[Tried]) -> str:
    """The table as a file."""
    import pandas as pd

    rows = []
    for line in lines:
        pair = line.tested.pair if line.tested else None
        several = pair if pair and pair.cases > 1 else None  # of one prompt there is no interval
        rows.append(
            {
                "candidate": line.candidate.label,
                "proposer": line.candidate.settings.proposer,
                "tuning_prompts": line.prompts,
                "tuning_speedup": line.speedup,
                "tuning_tokens": line.tokens,
                "held_back_prompts": pair.cases if pair else 0,
                "held_back_speedup": pair.ratio if pair else None,
                "low": several.low if several else None,
                "high": several.high if several else None,
                "tokens_per_pass": line.tested.tokens_per_pass if line.tested else None,
                "became": line.why,
            }
        )
    return csv_of(pd.DataFrame(rows).astype({"tuning_tokens": "Int64"}) if rows else pd.DataFrame())
