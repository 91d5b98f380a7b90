"""The inventory: twelve questions, one per misconception, before the course, and twelve like them after it.

Two files, `inventory.md` and `inventory-after.md`: a section for each of M1 to M12 with the question and its options,
and in the front matter a condition for each option, exactly one of which must be true. The two questions on a
misconception are a pair: the same belief answers both wrongly, but neither text answers the other.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from app.course import progress
from app.course.files import reading
from app.course.files.lesson import (
    SECTIONS,
    Expression,
    Lesson,
    Misconception,
    Name,
    Problem,
    Section,
    Strict,
)
from app.course.files.source import Draft, Mistake, apart, compute, known, made_or_problems, section

QUESTIONS = tuple(f"M{number}" for number in range(1, 13))
When = Literal["before", "after"]
WHEN: tuple[When, ...] = ("before", "after")
FILES: dict[When, str] = {"before": "inventory.md", "after": "inventory-after.md"}


class InventoryFront(Strict):
    """The front matter: for each question a condition for each option, and which wrong ones show its misconception."""

    given: dict[str, Any] = Field({})
    facts: dict[str, Expression] = Field({})
    right: dict[Misconception, dict[Name, Expression]] = Field(min_length=1)
    mistakes: dict[Misconception, list[Name]] = Field({})
    pictures: dict[Misconception, Name] = Field({})
    """The lesson whose picture explains a question, where several treat it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its text and options, which option is right, and which wrong ones show the misconception."""

    id: str
    text: Section
    right: str
    mistakes: frozenset[str]
    picture: str | None
    """The lesson whose picture explains it, if the file names one."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The twelve questions, and the facts they use."""

    questions: Mapping[str, Question]
    facts: Mapping[str, Any]


def read(language: str, when: When) -> tuple[Inventory | None, list[Problem]]:
    """The questions before or after the course, or their file's mistakes; without a file, the English ones."""
    for name in dict.fromkeys((language, "en")):
        path = reading.FOLDER / name / FILES[when]
        if path.is_file():
            return _read(path, path.stat().st_mtime_ns)
    return None, [
        Problem(f"{language}/{FILES[when]}", 1, "This file is missing; it holds the inventory's questions.")
    ]


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int) -> tuple[Inventory | None, list[Problem]]:
    return made_or_problems(f"{path.parent.name}/{path.name}", path, QUESTIONS, _inventory)


def _inventory(draft: Draft) -> Inventory:
    """Check the file, compute its facts, and find the right options.

    Raises:
        Mistake, pydantic.ValidationError: where it does not fit.
    """
    front = InventoryFront.model_validate(draft.front)
    facts = known(front.given, front.facts, draft)
    return Inventory({key: _question(key, front, facts, draft) for key in QUESTIONS}, facts)


def _question(key: str, front: InventoryFront, facts: Mapping[str, Any], draft: Draft) -> Question:
    text = section(key, draft, facts)
    here = draft.sections[key][0][0] - 1 if draft.sections[key] else 1
    if not text.prose:
        raise Mistake(here, f"The section “{key}” asks nothing: write the question above its options.")
    conditions = front.right.get(key, {})
    if conditions.keys() != text.items.keys() or len(conditions) < 2:
        alone = sorted(conditions.keys() ^ text.items.keys())
        raise Mistake(
            draft.line("right", key),
            f"“{alone[0] if alone else key}” is in only one of the two: every option of the section “{key}” needs "
            "its condition below `right`, and every condition its option; there are at least two.",
        )
    if silent := [name for name, item in text.items.items() if not item.note]:
        raise Mistake(
            here, f"The option “{silent[0]}” of “{key}” has no explanation: add a line `  > …` below it."
        )
    right = [
        name
        for name, condition in conditions.items()
        if compute(condition, facts, draft.line("right", key, name))
    ]
    if len(right) != 1:
        which = ", ".join(sorted(right)) or "none"
        raise Mistake(draft.line("right", key), f"Exactly one option has to be right; now it is: {which}.")
    mistakes = frozenset(front.mistakes.get(key, ()))
    if strange := sorted(mistakes - (conditions.keys() - set(right))):
        raise Mistake(
            draft.line("mistakes", key),
            f"“{strange[0]}” is not a wrong option of {key}; its wrong options are "
            f"{', '.join(sorted(conditions.keys() - set(right)))}.",
        )
    return Question(key, text, right[0], mistakes, front.pictures.get(key))


# --- answers -------------------------------------------------------------------------------------------------------


def answer(inventory: Inventory, when: When, question: str, option: str) -> None:
    """Lock in an answer. Before the course, nothing is judged until all twelve are given."""
    answers = progress.here().inventories.setdefault(when, {})
    if question in answers or option not in inventory.questions[question].text.items:
        return
    answers[question] = progress.answer(option, None)
    if when == "after" or complete(answers):
        for key, given in answers.items():
            given.right = given.given == inventory.questions[key].right


def complete(answers: Mapping[str, progress.Answer]) -> bool:
    """Whether all twelve are answered."""
    return all(key in answers for key in QUESTIONS)


def first_open(answers: Mapping[str, progress.Answer]) -> str | None:
    """The first unanswered question."""
    return next((key for key in QUESTIONS if key not in answers), None)


def as_csv(kept: progress.CourseProgress) -> str:
    """One row per question with both answers; nothing in it identifies the learner."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["question", "before", "before_right", "after", "after_right"])
    for key in QUESTIONS:
        row: list[Any] = [key]
        for when in WHEN:
            found = kept.inventories.get(when, {}).get(key)
            row += ["", ""] if found is None else [found.given, "" if found.right is None else found.right]
        rows.writerow(row)
    return out.getvalue()


# --- the lessons on them -------------------------------------------------------------------------------------------


def treating(language: str) -> dict[str, list[str]]:
    """For each question the lessons that treat its misconception, by id, in the course's order."""
    listed = [
        (reading.name(path)[1], _misconceptions(path, path.stat().st_mtime_ns))
        for path in reading.files(language)
    ]
    return {question: [key for key, about in listed if question in about] for question in QUESTIONS}


@lru_cache(maxsize=256)
def _misconceptions(path: Path, _changed: int) -> tuple[str, ...]:
    """The misconceptions that a lesson's file lists, even if something else in it is wrong."""
    try:
        found = apart(path, SECTIONS).front.get("misconceptions")
    except (Mistake, OSError):
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def lesson_on(language: str, question: Question) -> Lesson | None:
    """The lesson whose picture explains a question; None if there is none yet."""
    there = treating(language)[question.id]
    for key in sorted(there, key=lambda key: key != question.picture):
        lesson, _ = reading.read(language, key)
        if lesson is not None:
            return lesson
    return None
