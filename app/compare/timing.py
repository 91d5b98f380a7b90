"""A lane's times in the comparison's table: those of its repeats where there are any, else those of the race."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import Any

from app.metrics.numbers import measured_speedup
from app.text import count
from specdec_core.record.trace import Trace
from specdec_measure.analysis.advice import MIN_CASES, compare
from specdec_measure.analysis.diagnosis import undecided, why
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.totals import MIN_TOKENS


@dataclass(frozen=True, slots=True)
class Timing:
    """Speed and seconds of one lane.

    Attributes:
        tokens_per_second: in repeats the geometric mean, so that the ratio of two lanes is their speedup.
        draft_s, verify_s, other_s: in repeats the mean of a turn.
        passes: the target's, in one run.
        repeats: how many turns these are of; 0 for the race alone.
    """

    tokens_per_second: float | None
    draft_s: float
    verify_s: float
    other_s: float
    passes: int = 0
    repeats: int = 0

    @property
    def whole(self) -> float:
        """All decoding time."""
        return self.draft_s + self.verify_s + self.other_s

    @property
    def source(self) -> str:
        """What the figures are of, for a note; empty for the race."""
        return "" if not self.repeats else "one repeat" if self.repeats == 1 else f"{self.repeats} repeats"


def timing(trace: Trace, repeats: Sequence[MeasuredCase], lane: int) -> Timing:
    """The times of one lane, whose number in the run is `lane`."""
    rows, stats = [turn[lane] for turn in turns(repeats, lane)], trace.stats
    if not rows:
        return _plainly(trace, stats.tokens_per_second, stats.draft_s, stats.verify_s, stats.other_s)
    speed = geometric_mean(speeds(repeats, lane))
    draft, verify, other = (
        fmean(getattr(row, name) for row in rows) for name in ("draft_s", "verify_s", "other_s")
    )
    return _plainly(trace, speed, draft, verify, other, len(rows))


def _plainly(
    trace: Trace, speed: float | None, draft: float, verify: float, other: float, repeats: int = 0
) -> Timing:
    """Plain decoding has nothing to draft: the time before its passes belongs to the rest."""
    if trace.header.settings.get("proposer") == "none":
        draft, other = 0.0, draft + other
    return Timing(speed, draft, verify, other, trace.stats.target_passes, repeats)


def pass_cost(plain: Timing, time: Timing, trace: Trace) -> dict[str, float | None] | None:
    """What a lane's mean target pass and draft pass take in plain decoding's passes; None where there are no times.

    `value` is T(n) / T(1), `tokens` is n, the mean over the passes. `c` of a draft pass is None where no model drafts,
    and where it does so while the target checks, off the round's clock.
    """
    if not (plain.passes and plain.verify_s > 0 and time.passes == len(trace.rounds) and time.verify_s > 0):
        return None
    unit, drafts = plain.verify_s / plain.passes, trace.stats.draft_passes
    beside = any(row.ahead_passes for row in trace.rounds)
    return {
        "value": time.verify_s / time.passes / unit,
        "tokens": sum(row.width for row in trace.rounds) / time.passes,
        "c": time.draft_s / drafts / unit if drafts and not beside else None,
    }


def turns(repeats: Sequence[MeasuredCase], lane: int) -> list[dict[int, MeasuredCase]]:
    """The turns in which this lane and plain decoding both wrote enough."""
    found: dict[Any, dict[int, MeasuredCase]] = {}
    for row in repeats:
        if row.error is None and row.tokens >= MIN_TOKENS and row.seconds > 0:
            found.setdefault(row.turn, {})[row.lane] = row
    return [turn for turn in found.values() if 0 in turn and lane in turn]


def speeds(repeats: Sequence[MeasuredCase], lane: int) -> list[float]:
    """A lane's tokens per second in each of these turns."""
    return [turn[lane].tokens / turn[lane].seconds for turn in turns(repeats, lane)]


def speedups(repeats: Sequence[MeasuredCase], lane: int) -> list[float]:
    """A lane's speedup in each of these turns."""
    return [
        (turn[lane].tokens / turn[lane].seconds) / (turn[0].tokens / turn[0].seconds)
        for turn in turns(repeats, lane)
    ]


def speedup(plain: Trace, trace: Trace, repeats: Sequence[MeasuredCase], lane: int) -> float | None:
    """A lane's speedup: the geometric mean of its repeats, without any that of the race; None if too few tokens."""
    found = speedups(repeats, lane)
    return geometric_mean(found) if found else measured_speedup(plain.stats, trace.stats)


BEST = {
    **dict.fromkeys(("speedup", "tokens_per_second", "acceptance_rate", "tokens_per_pass"), max),
    **dict.fromkeys(("target_passes", "wasted", "memory"), min),
}  # of the table's figures


def best(key: str, values: Sequence[Any]) -> list[bool]:
    """Which lanes have the best value of a figure; none where it has no better and worse, or all are equal.

    Plain decoding, the first, wastes nothing and needs least, so it counts only where more is better.
    """
    pick = BEST.get(key)
    found = [value.get("value") if isinstance(value, dict) else value for value in values]
    if pick is min:
        found[0] = None
    known = [value for value in found if isinstance(value, int | float)]
    if pick is None or len(set(known)) < 2:
        return [False] * len(found)
    return [value == pick(known) for value in found]


def answer(
    traces: Sequence[Trace],
    numbers: Sequence[int],
    letters: Sequence[str],
    repeats: Sequence[MeasuredCase],
    leave_out: Collection[int] = (),
) -> str:
    """Which lane to take, by tokens per pass, which do not depend on the clock, and by the clock; empty if none can be.

    Args:
        numbers: the lanes' numbers in the run; 0 is plain decoding.
        letters: what all lanes of the run are called, by number.
        leave_out: lanes that are never recommended.
    """
    lanes = {
        number: trace
        for number, trace in zip(numbers, traces, strict=True)
        if number and number not in leave_out and trace.stats.tokens_per_pass
    }
    if not lanes or 0 not in numbers:
        return ""
    plain = traces[list(numbers).index(0)]
    ranked = sorted(lanes, key=lambda number: -(lanes[number].stats.tokens_per_pass or 0.0))
    by_pass = ", ".join(f"{letters[number]} {lanes[number].stats.tokens_per_pass:.2f}" for number in ranked)
    found = {number: speedup(plain, trace, repeats, number) or 0.0 for number, trace in lanes.items()}
    best = max(found, key=lambda number: found[number])
    measured = speedups(repeats, best)
    if measured:
        pair = compare(measured, [1.0] * len(measured))
        low, high, clear = pair.low, pair.high, pair.clear
        source = f"over {count(len(measured), 'repeat')}"
    else:
        one = why(plain, lanes[best])
        low, high = (one.low, one.high) if one is not None else (0.0, math.inf)
        clear, source = low > 1.0, "within this one run"
    clock = f"{letters[best]}, {found[best]:.2f}× plain decoding"
    if not found[best] or not math.isfinite(high):
        clock = "too few tokens to tell"
    elif clear:
        clock += f" (95% interval {low:.2f} to {high:.2f} {source})"
    else:
        clock = f"undecided ({clock}, 95% interval {low:.2f} to {high:.2f} {source}); repeat the race"
    return f"By tokens per pass: {by_pass}. By the clock: {clock}."


def verdict(repeats: Sequence[MeasuredCase], lane: int) -> str:
    """Faster or slower than plain decoding by the repeats, with the lowest and highest; empty where there are none."""
    found = speedups(repeats, lane)
    if not found:
        return ""
    pair = compare(found, [1.0] * len(found))
    way = ("Faster" if pair.ratio > 1.0 else "Slower") if pair.clear else undecided(pair.ratio)
    few = f"; too few to tell, which takes at least {MIN_CASES}" if len(found) < MIN_CASES else ""
    spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
    return f"{way}, {pair.ratio:.2f}× over {count(len(found), 'repeat')}{spread}{few}."
