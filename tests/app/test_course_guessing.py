"""What a learner could score without understanding anything: by the length of the options, or by their place on a
scale. In both languages, over the lessons' predictions, their checks, and the twelve questions before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from app.course import inventory, reading
from app.course.lesson import Section

ROOM = 0.15  # above chance
KINDS = ("predict", "check", "before", "after")


class Asked(NamedTuple):
    """A question by the length of its options, in the file's order, and the place of the right one."""

    key: str
    long: tuple[int, ...]
    right: int
    scale: bool = False


def asked(language: str, kind: str) -> list[Asked]:
    """The questions with one right option."""
    if kind in ("before", "after"):
        found, problems = inventory.read(language, "before" if kind == "before" else "after")
        assert found is not None, problems
        return [_one(each.id, each.text, each.right) for each in found.questions.values()]
    questions = []
    for _, key, _, _ in reading.titles(language):
        lesson, problems = reading.read(language, key)
        assert lesson is not None, problems
        front = lesson.front.predict
        if kind == "check" or front.kind == "choice":
            (right,) = lesson.right[kind]
            scale = kind == "predict" and front.ordered
            questions.append(_one(key, lesson.sections[kind], right, scale))
    return questions


def _one(key: str, section: Section, right: str, scale: bool = False) -> Asked:
    long = tuple(len(item.text) for item in section.items.values())
    return Asked(key, long, list(section.items).index(right), scale)


def score(questions: Sequence[Asked], rank: int) -> float:
    """Of those who always take the option of this rank by length: 0 is the longest, -1 the shortest. Ties are drawn."""
    total = 0.0
    for each in questions:
        wanted = sorted(each.long, reverse=True)[min(rank, len(each.long) - 1)]
        if each.long[each.right] == wanted:
            total += 1 / each.long.count(wanted)
    return total / len(questions)


def chance(questions: Sequence[Asked]) -> float:
    return sum(1 / len(each.long) for each in questions) / len(questions)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["en", "de"])
def test_no_rank_by_length_is_a_key(language: str, kind: str) -> None:
    """Catches: right options that are always the longest, and those that are never the longest nor the shortest, so
    that the one between is right."""
    questions = asked(language, kind)
    assert len(questions) >= 12
    most = chance(questions) + ROOM
    found = {rank: round(score(questions, rank), 2) for rank in (0, 1, -2, -1)}
    assert max(found.values()) <= most, (found, round(most, 2), [each.key for each in questions])


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_extremes_of_a_scale_are_not_for_show(language: str) -> None:
    """Catches: scales on which an option at an end is never right."""
    scales = [each for each in asked(language, "predict") if each.scale]
    inside = [each for each in scales if 0 < each.right < len(each.long) - 1]
    assert scales and len(inside) < len(scales)
    # Who leaves the ends out and draws among the others:
    lucky = sum(1 / (len(each.long) - 2) for each in inside) / len(scales)
    assert lucky <= chance(scales) + ROOM, [each.key for each in inside]


def test_the_scores_are_those_of_a_guesser() -> None:
    """By hand: three questions, right once the longest, once the second of three, once tied for the shortest."""
    made = [Asked("a", (9, 5, 7), 0), Asked("b", (4, 8, 6), 2), Asked("c", (3, 3, 9), 1)]
    assert score(made, 0) == pytest.approx(1 / 3)
    assert score(made, 1) == pytest.approx((1 + 1 / 2) / 3)
    assert score(made, -1) == pytest.approx((1 / 2) / 3)
    assert chance(made) == pytest.approx(1 / 3)
