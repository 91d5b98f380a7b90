"""What lines of logs have in common: ratios that are rounded, and counts that add up over lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from .acceptance import Acceptance, counted, number, of_rates


def summed(
    engine: str, pairs: Sequence[tuple[int, int]], details: Sequence[tuple[float | None, list[float]]]
) -> Acceptance | None:
    """The lines of a log as one; rounds and positions only if every line's are certain.

    Args:
        pairs: each line's accepted guesses and guesses.
        details: its mean length, where it has one, and its accepted shares by position.
    """
    if not pairs:
        return None
    rounds: int | None = 0
    rows: list[list[int]] | None = []
    for (accepted, drafted), (mean, rates) in zip(pairs, details, strict=True):
        number(accepted, "accepted guesses")
        number(drafted, "guesses")
        one = of_rates(accepted, drafted, mean, rates) if mean is not None else None
        rounds = None if one is None or rounds is None else rounds + one[0]
        rows = None if one is None or rows is None or not one[1] else [*rows, one[1]]
    unsure = "Rounds and positions are unknown: not every line determines them."
    return counted(
        engine, lines_of(len(pairs)), rounds=rounds, drafted=sum(pair[1] for pair in pairs),
        accepted=sum(pair[0] for pair in pairs),
        at=[sum(column) for column in zip_longest(*rows, fillvalue=0)] if rows else [],
        remarks=[unsure] if rounds is None else [],
    )  # fmt: skip


def mean_of(line: str, before: str) -> float | None:
    """The mean length of a line, to two places."""
    found = re.search(before + r" *([0-9]+\.[0-9]+)", line)
    return float(found[1]) if found else None


def rates_of(line: str, before: str) -> list[float]:
    """The shares by position of a line, to three places."""
    found = re.search(before + r"((?:[0-9]\.[0-9]{3}(?:, )?)+)", line)
    return [float(rate) for rate in found[1].rstrip(", ").split(", ")] if found else []


def lines_of(count: int) -> str:
    """Where counts of so many lines are from."""
    return f"its log, {count:,} line{'s' if count != 1 else ''}"
