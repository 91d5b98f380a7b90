"""Passes of the target that something else held up: another program, or models that had just been loaded.

They are part of a lane's time and so of its speed, and say nothing of its proposer.
"""

from __future__ import annotations

from statistics import median_high

from specdec_core.record.trace import Trace

TIMES = 2.0  # as long as usual, at least
MIN_PASSES = 5  # passes that are compared


def held_up(trace: Trace) -> dict[int, float]:
    """By round, how many seconds its target pass took beyond the usual time of this lane's passes over at least as many
    tokens, where it took twice that or more; empty for runs without rounds or with too few to compare."""
    rounds = trace.rounds
    if len(rounds) <= MIN_PASSES:
        return {}
    whole = median_high(row.verify_s for row in rounds)
    found = {}
    for row in rounds:
        if row.verify_s < TIMES * whole:
            continue  # so that only few are looked at closely
        others = [other.verify_s for other in rounds if other is not row and other.width >= row.width]
        usual = median_high(others) if len(others) >= MIN_PASSES else 0.0
        if usual > 0 and row.verify_s >= TIMES * usual:
            found[row.index] = row.verify_s - usual
    return found
