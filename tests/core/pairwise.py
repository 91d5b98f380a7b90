"""Few cases out of many, in which every two values still meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

T = TypeVar("T")
Values = Mapping[str, Hashable]  # by factor


def pairs(values: Values) -> set[tuple[tuple[str, Hashable], ...]]:
    """Every two of a case's values, each with its factor."""
    return set(combinations(values.items(), 2))


def dealt(groups: Sequence[Sequence[tuple[Values, T]]]) -> list[tuple[Values, T]]:
    """One case of each group, the one with the most pairs that no case before it had; then cases for what is left.

    Every pair of values that some case has is in a case of the result. Among equals, the case whose values were used
    least, so that all values are used about equally often.
    """
    missing = {pair for group in groups for values, _ in group for pair in pairs(values)}
    taken: list[tuple[Values, T]] = []
    used: Counter[tuple[str, Hashable]] = Counter()

    def worth(case: tuple[Values, T]) -> tuple[int, int]:
        values = case[0]
        return len(pairs(values) & missing), -sum(used[value] for value in values.items())

    def take(cases: Sequence[tuple[Values, T]]) -> None:
        best = max(cases, key=worth)
        missing.difference_update(pairs(best[0]))
        used.update(best[0].items())
        taken.append(best)

    for group in groups:
        take(group)
    while missing:
        take([case for group in groups for case in group])
    return taken
