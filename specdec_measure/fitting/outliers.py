"""Runs that something else on the machine held up: which of a fit's times cannot be right.

Two signs give a run away. It took far longer for a pass than the other runs of its candidate. Or a candidate beside it
was far faster over plain decoding than its tokens per pass allow, so that plain decoding was held up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_low

from specdec_measure.analysis.advice import disturbed
from specdec_measure.sweep.totals import MIN_TOKENS

from .bench import pairs
from .state import FitCell, FitState, Key, Stage

HELD_UP = 2.0  # times the median of the candidate's runs, for a pass
IMPOSSIBLE = 1.2  # times the tokens per pass: a little above them may be noise


def held_up(state: FitState, stage: Stage) -> list[FitCell]:
    """The runs of a stage that were held up and not repeated yet, the worst first."""
    paces: dict[str, dict[Key, float]] = {}
    for cell in state.cells.values():
        if cell.calculated is None and cell.usable and cell.measured.tokens_per_pass:
            passes = cell.measured.tokens / cell.measured.tokens_per_pass
            paces.setdefault(cell.candidate, {})[cell.key] = cell.seconds / passes
    excess: dict[Key, float] = {}
    for own in paces.values():
        usual = median_low(own.values())  # of two runs the faster
        excess |= {key: pace / usual for key, pace in own.items()}
    for other, speedup, most in races(state, [stage]):
        excess[other.key] = max(excess.get(other.key, 0.0), HELD_UP * speedup / (IMPOSSIBLE * most))
    found = [key for key, times in excess.items() if times >= HELD_UP and key[0] == stage]
    cells = [state.cells[key] for key in sorted(found, key=lambda key: -excess[key])]
    return [cell for cell in cells if cell.runs == 1 and cell.calculated is None]


def races(
    state: FitState, stages: Sequence[Stage], label: str | None = None
) -> list[tuple[FitCell, float, float]]:
    """Of every race of a candidate, or of all, against plain decoding with enough tokens: plain decoding's run, the
    speedup, tokens per pass."""
    found = []
    for cell, other in pairs(state, stages, label):
        tokens = min(cell.measured.tokens, other.measured.tokens)
        if tokens >= MIN_TOKENS and cell.measured.tokens_per_pass:
            speedup = cell.measured.tokens / cell.seconds / (other.measured.tokens / other.seconds)
            found.append((other, speedup, cell.measured.tokens_per_pass))
    return found


def said(state: FitState, labels: Iterable[str]) -> str:
    """A sentence about figures of these candidates that cannot be right, as a sweep's advice says it; empty where none
    is known."""
    stages: tuple[Stage, ...] = ("scouting", "search", "held back")
    return disturbed([race[1:] for label in labels for race in races(state, stages, label)])


def repeated(state: FitState) -> str:
    """A sentence about the runs that were held up and repeated; empty where there are none."""
    again = sum(cell.runs > 1 for cell in state.cells.values())
    if not again:
        return ""
    runs, were = ("run", "was") if again == 1 else ("runs", "were")
    return (
        f"{again} {runs} {were} repeated, as a pass took at least {HELD_UP:g} times as long as usual for the "
        "candidate, or plain decoding so long that a speedup was impossible; of both runs the faster counts."
    )
