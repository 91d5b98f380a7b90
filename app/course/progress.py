"""A learner's predictions and answers: kept with the visitor's library, so that a reload loses nothing, and as a file.

Without cookies nobody is recognised, and they last as long as the session.
"""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import streamlit as st
from pydantic import TypeAdapter, ValidationError

from app import services
from app.records import visitor
from app.records.database import Unavailable
from app.ui import presenter

from .files.lesson import Given

log = logging.getLogger(__name__)

STORE, PRESENTED = "course-progress", "course-presented"
SAVED = "course-saved"  # as it was last kept
FORMAT, VERSION = "specdec-course", 1
MAX_FILE_LENGTH = 500_000  # characters of a file, ten times what the whole course takes


@dataclass(slots=True)
class Answer:
    """A prediction or an answer; it cannot be taken back. `right` is None if the answer was revealed without one."""

    given: Given | None
    right: bool | None
    at: str


@dataclass(slots=True)
class LessonProgress:
    """One lesson's progress: the locked-in answers, and the farthest open step."""

    predict: Answer | None = None
    check: Answer | None = None
    farthest: int = 0

    @property
    def done(self) -> bool:
        """Whether the lesson's last question is answered."""
        return self.check is not None


@dataclass(slots=True)
class CourseProgress:
    """A session's progress in all lessons."""

    lessons: dict[str, LessonProgress] = field(default_factory=dict)
    inventories: dict[str, dict[str, Answer]] = field(default_factory=dict)
    """“before” and “after”: the answer to each question by its misconception, M1 to M12."""
    claims: dict[str, Answer] = field(default_factory=dict)
    """What the learner said of a claim heard in the field, by the claim's id."""
    notes: dict[str, str] = field(default_factory=dict)
    """What the learner wrote in a lesson, by the lesson's id."""
    language: str = ""
    """The course's language, if the learner chose one."""

    def of(self, lesson: str) -> LessonProgress:
        """A lesson's progress, created on first use."""
        return self.lessons.setdefault(lesson, LessonProgress())

    def now(self) -> CourseProgress:
        """A copy to go through: a run of the page that a newer one has replaced may still be adding to this one."""
        inventories = {when: dict(answers) for when, answers in list(self.inventories.items())}
        return CourseProgress(
            dict(self.lessons), inventories, dict(self.claims), dict(self.notes), self.language
        )


def here() -> CourseProgress:
    """This visitor's progress; in a presentation the class's, which begins afresh and is not kept."""
    if not presenter.presenting():
        return _own()
    presented: CourseProgress = st.session_state.setdefault(
        PRESENTED, CourseProgress(language=_own().language)
    )
    return presented


def presented(lesson: str) -> bool:
    """Whether a class of this session's has predicted in that lesson."""
    kept: CourseProgress | None = st.session_state.get(PRESENTED)
    return kept is not None and kept.of(lesson).predict is not None


def _own() -> CourseProgress:
    if STORE not in st.session_state:
        st.session_state[STORE] = _kept()
    kept: CourseProgress = st.session_state[STORE]
    return kept


def save() -> None:
    """Keep the progress with the visitor's library if it has changed."""
    written = as_json(_own())
    if written == st.session_state.get(SAVED) or not visitor.is_remembered():
        return
    try:
        services.library().keep_progress(visitor.of_session(), written)
        st.session_state[SAVED] = written
    except Unavailable:  # it has been logged; the answers are still in this session, and are tried again
        pass


def _kept() -> CourseProgress:
    """What the library keeps of this visitor; nothing if that cannot be read."""
    if not visitor.is_remembered():
        return CourseProgress()
    try:
        found = services.library().progress(visitor.of_session())
        return from_json(found) if found else CourseProgress()
    except Unavailable:
        return CourseProgress()
    except ValueError as error:
        log.warning("a visitor's progress is not as it was written: %s", error)
        return CourseProgress()


def from_json(text: str) -> CourseProgress:
    """The progress in a downloaded file.

    Raises:
        ValueError: one sentence, if it is none.
    """
    try:
        content = json.loads(text[:MAX_FILE_LENGTH])
        if content.pop("format") != FORMAT or content.pop("version") != VERSION:
            raise ValueError
        return TypeAdapter(CourseProgress).validate_python(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, ValidationError):
        raise ValueError(
            "This is not a file of answers; take the JSON that was downloaded from this course."
        ) from None


def answer(given: Given | None, right: bool | None) -> Answer:
    """An answer given now."""
    return Answer(given, right, datetime.now(UTC).isoformat(timespec="seconds"))


def as_json(kept: CourseProgress) -> str:
    """Everything as JSON, for download."""
    return json.dumps(
        {"format": FORMAT, "version": VERSION, **asdict(kept.now())}, indent=2, ensure_ascii=False
    )


def as_csv(kept: CourseProgress, titles: Mapping[str, str]) -> str:
    """One row for each prediction, answer and inventory question."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["where", "title", "question", "given", "right", "at"])
    kept = kept.now()
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
