"""Votes counted: bars for options, dots for numbers, and who changed to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .asked import Asked, Given


@dataclass(frozen=True, slots=True)
class Vote:
    """One answer; `count` is more than one where cards were counted by hand."""

    student: str
    lesson: str
    part: str
    vote: int
    given: Given
    right: bool
    seconds: float
    at: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Tally:
    """One vote of a class."""

    answered: int
    right: int
    options: Mapping[str, int]
    """How many chose each option."""
    dots: Sequence[tuple[float, int]]
    """Of numbers: each value, and how many said it."""

    @property
    def share(self) -> float:
        """The share of right answers."""
        return self.right / self.answered if self.answered else 0.0


def count(question: Asked, votes: Iterable[Vote], which: int) -> Tally:
    """The first or the second vote on this question."""
    mine = [
        vote
        for vote in votes
        if vote.vote == which and vote.lesson == question.lesson.id and vote.part == question.part
    ]
    options: Counter[str] = Counter(dict.fromkeys(question.items, 0))
    dots: Counter[float] = Counter()
    for vote in mine:
        if isinstance(vote.given, str):
            options[vote.given] += vote.count
        elif isinstance(vote.given, list):
            options.update(dict.fromkeys(vote.given, vote.count))
        else:
            dots[vote.given] += vote.count
    return Tally(
        sum(vote.count for vote in mine),
        sum(vote.count for vote in mine if vote.right),
        {key: options[key] for key in question.items},
        sorted(dots.items()),
    )


def changed(votes: Iterable[Vote]) -> dict[str, int]:
    """Of those who voted twice on a question: from wrong to right, from right to wrong, right twice, wrong twice."""
    pairs: dict[tuple[str, str, str], dict[int, bool]] = {}
    for vote in votes:
        pairs.setdefault((vote.student, vote.lesson, vote.part), {})[vote.vote] = vote.right
    both = Counter((pair[1], pair[2]) for pair in pairs.values() if len(pair) == 2)
    return {
        "gained": both[False, True],
        "lost": both[True, False],
        "right": both[True, True],
        "wrong": both[False, False],
    }


def commonest(question: Asked, votes: Iterable[Vote]) -> str | None:
    """The wrong option that most chose in the first vote."""
    found = count(question, votes, 1)
    wrong = {key: number for key, number in found.options.items() if key not in question.right and number}
    return max(wrong, key=lambda key: wrong[key]) if wrong else None


def as_json(found: Tally) -> dict[str, Any]:
    """As plain values."""
    return {
        "answered": found.answered,
        "right": found.right,
        "options": dict(found.options),
        "dots": [list(dot) for dot in found.dots],
    }
