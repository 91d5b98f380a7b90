"""Votes counted: bars for options, dots for numbers, and who changed to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .asked import Asked

OWN = "own tree"  # the part of what a student's own run measured
PAPER = "paper"  # the seats of raised cards begin like this


@dataclass(frozen=True, slots=True)
class Vote:
    """One answer; `count` is more than one where cards were counted by hand."""

    student: str
    lesson: str
    part: str
    vote: int
    given: Any  # Given, or of a student's own run what was measured
    right: bool
    seconds: float
    at: float
    count: int = 1

    @property
    def raised(self) -> bool:
        """Whether these are cards that were counted by hand."""
        return self.student.startswith(f"{PAPER} ")


@dataclass(frozen=True, slots=True)
class VoteTally:
    """One vote of a class."""

    answered: int
    right: int
    options: Mapping[str, int]
    """How many chose each option."""
    dots: Sequence[tuple[float, int]]
    """Of numbers: each value, and how many said it."""
    cards: int = 0
    """How many of those who answered raised a card."""

    @property
    def share(self) -> float:
        """The share of right answers."""
        return self.right / self.answered if self.answered else 0.0


def count(question: Asked, votes: Iterable[Vote], which: int) -> VoteTally:
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
        elif isinstance(vote.given, int | float):
            dots[vote.given] += vote.count
    return VoteTally(
        sum(vote.count for vote in mine),
        sum(vote.count for vote in mine if vote.right),
        {key: options[key] for key in question.items},
        sorted(dots.items()),
        sum(vote.count for vote in mine if vote.raised),
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


def class_hits(votes: Iterable[Vote], parts: Collection[str]) -> tuple[int, int]:
    """Of the votes on these rounds of a run: how many were right, and how many there were."""
    found = [vote.right for vote in votes if vote.part in parts]
    return sum(found), len(found)


def fastest(votes: Iterable[Vote], lesson: str) -> list[dict[str, Any]]:
    """What the students' own runs of a lesson measured, the fastest first; of the model that ran last, since speeds of
    two cannot be compared."""
    mine = sorted(
        (vote for vote in votes if vote.part == OWN and vote.lesson == lesson), key=lambda vote: vote.at
    )
    found = [vote.given for vote in mine if isinstance(vote.given, dict)]
    same = [each for each in found if each["model"] == found[-1]["model"]]
    return sorted(same, key=lambda each: -each["speed"])


def as_json(found: VoteTally) -> dict[str, Any]:
    """As plain values."""
    return {
        "answered": found.answered,
        "right": found.right,
        "options": dict(found.options),
        "dots": [list(dot) for dot in found.dots],
    }
