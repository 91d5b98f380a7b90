"""A learner's predictions and answers, kept in the browser session alone, and downloadable as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import streamlit as st

Given = str | float | list[str]
STORE = "course-progress"


@dataclass(slots=True)
class Answer:
    """A prediction or an answer; it cannot be taken back. `right` is None if the answer was revealed without one."""

    given: Given | None
    right: bool | None
    at: str


@dataclass(slots=True)
class Progress:
    """One lesson's progress: the locked-in answers, and the farthest open step."""

    predict: Answer | None = None
    check: Answer | None = None
    farthest: int = 0

    @property
    def done(self) -> bool:
        """Whether the lesson's last question is answered."""
        return self.check is not None


@dataclass(slots=True)
class Kept:
    """A session's progress in all lessons."""

    lessons: dict[str, Progress] = field(default_factory=dict)
    inventories: dict[str, dict[str, Answer]] = field(default_factory=dict)
    """“before” and “after”: the answer to each question by its misconception, M1 to M12."""
    claims: dict[str, Answer] = field(default_factory=dict)
    """What the learner said of a claim heard in the field, by the claim's id."""
    notes: dict[str, str] = field(default_factory=dict)
    """What the learner wrote in a lesson, by the lesson's id."""

    def of(self, lesson: str) -> Progress:
        """A lesson's progress, created on first use."""
        return self.lessons.setdefault(lesson, Progress())


def here() -> Kept:
    """This session's progress."""
    if STORE not in st.session_state:
        st.session_state[STORE] = Kept()
    kept: Kept = st.session_state[STORE]
    return kept


def answer(given: Given | None, right: bool | None) -> Answer:
    """An answer given now."""
    return Answer(given, right, datetime.now(UTC).isoformat(timespec="seconds"))


def as_json(kept: Kept) -> str:
    """Everything as JSON, for download."""
    return json.dumps(
        {"format": "specdec-course", "version": 1, **asdict(kept)}, indent=2, ensure_ascii=False
    )


def as_csv(kept: Kept, titles: Mapping[str, str]) -> str:
    """One row for each prediction, answer and inventory question."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["where", "title", "question", "given", "right", "at"])
    for lesson, progress in kept.lessons.items():
        for question in ("predict", "check"):
            if (found := getattr(progress, question)) is not None:
                rows.writerow([lesson, titles.get(lesson, lesson), question, *_cells(found)])
    for when, answers in kept.inventories.items():
        for misconception, found in answers.items():
            rows.writerow([f"inventory {when}", "", misconception, *_cells(found)])
    for claim, found in kept.claims.items():
        rows.writerow(["claims", "", claim, *_cells(found)])
    return out.getvalue()


def _cells(found: Answer) -> list[Any]:
    given = " ".join(found.given) if isinstance(found.given, list) else found.given
    if isinstance(given, str) and given[:1] in tuple("=+-@\t\r"):
        given = f"'{given}"  # a spreadsheet would take it for a formula
    return ["" if given is None else given, "" if found.right is None else found.right, found.at]
