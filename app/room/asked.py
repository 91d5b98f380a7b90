"""The questions that a room asks: the prediction and the check of each lesson, and how an answer is judged."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import Any, Literal

from app.course import shuffle
from app.course.files import reading
from app.course.files.lesson import Given, Item, Lesson, Picture
from app.course.files.words import Words

from .states import Now, Part

Kind = Literal["choice", "several", "number"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A lesson's question in one language."""

    lesson: Lesson
    part: Part
    words: Words

    @property
    def kind(self) -> Kind:
        """How it is answered."""
        return self.lesson.front.predict.kind if self.part == "predict" else "choice"

    @property
    def items(self) -> Mapping[str, Item]:
        """The options by their keys."""
        return self.lesson.sections[self.part].items

    @property
    def prose(self) -> str:
        """The question itself, as Markdown."""
        return self.lesson.sections[self.part].prose

    @property
    def hook(self) -> str:
        """The sentence before the prediction."""
        return self.lesson.sections["hook"].prose if self.part == "predict" else ""

    @property
    def right(self) -> frozenset[str]:
        """The keys of the right options."""
        return self.lesson.right[self.part]

    @property
    def answer(self) -> float | None:
        """The right number."""
        return self.lesson.answer if self.part == "predict" else None

    @property
    def ordered(self) -> bool:
        """Whether the options are a scale, which keeps its own order."""
        return self.part == "predict" and self.lesson.front.predict.ordered

    def order(self) -> list[str]:
        """The options in the order of the printed sheets: a class that talks of B means one answer."""
        if self.ordered:
            return list(self.items)
        return shuffle.order(self.items, f"{self.lesson.id}-{self.part}", shuffle.PAPER)

    def picture(self, step: str) -> Picture | None:
        """The picture of one of the lesson's steps, if a class can see it together."""
        picture = self.lesson.pictures.get(step) if step in PICTURED else None
        return picture if picture is not None and picture.picture not in ALONE else None

    def read(self, given: Any) -> Given | None:
        """An answer as it came from a page, or None if it is none to this question."""
        if self.kind == "number":
            front = self.lesson.front.predict
            if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
                return None
            return float(given) if front.low <= given <= front.high else None
        if self.kind == "several":
            if not isinstance(given, list) or not given or not all(isinstance(key, str) for key in given):
                return None
            return sorted(set(given)) if set(given) <= self.items.keys() else None
        return given if isinstance(given, str) and given in self.items else None

    def is_right(self, given: Given) -> bool:
        """Whether an answer is right; a number within its tolerance is."""
        return self.lesson.is_right(self.part, given)

    @property
    def band(self) -> float:
        """How far off a right number may be."""
        return self.lesson.band

    def _counted(self) -> dict[str, str]:
        """From where to where a number is right, rounded inwards: both of them are."""
        assert self.answer is not None
        low = ceil(round(100 * (self.answer - self.band), 6)) / 100
        high = floor(round(100 * (self.answer + self.band), 6)) / 100
        return {"low": self.words.number(low, "g"), "high": self.words.number(high, "g")}

    def said(self, given: Given) -> str:
        """An answer in words."""
        if isinstance(given, int | float):
            return self.words.number(given, "g")
        return ", ".join(self.items[key].text for key in _keys(given) if key in self.items)

    def outcome(self) -> str:
        """The right answer in words."""
        if self.answer is not None:
            answer = self.words.number(self.answer, ".3g")
            return self.words("room.counts", answer=answer, **self._counted()) if self.band else answer
        return ", ".join(item.text for key, item in self.items.items() if key in self.right)

    def why(self) -> str:
        """Why it is right, as Markdown."""
        return "\n\n".join(
            self.items[key].note for key in self.items if key in self.right and self.items[key].note
        )

    def belief(self, key: str) -> str:
        """The misconception that a wrong option of a check names, as a sentence; "" if it names none."""
        missed = self.lesson.front.check.mistakes.get(key) if self.part == "check" else None
        return self.words(f"misconceptions.{missed}") if missed else ""


ALONE = frozenset({"distilling"})  # trains a draft, which each visitor does for themselves
PICTURED = ("predict", "watch", "change")


def _keys(given: str | list[str]) -> Sequence[str]:
    return given if isinstance(given, list) else [given]


def asked(language: str, lesson: str, part: Part) -> Asked | None:
    """That question; None where there is no such lesson, or its file has a mistake.

    Hundreds of pages ask for it at once, so the files are looked at once a second.
    """
    now, key = time.monotonic(), (language, lesson, part)
    if key not in _looked or now - _looked[key][0] > FRESH_S:
        if len(_looked) > MOST_LOOKED:
            _looked.clear()
        _looked[key] = now, _read(language, lesson, part)
    return _looked[key][1]


def fresh(language: str, now: Now) -> bool:
    """Whether the question that a room is at can be had at once; one that never was may take seconds."""
    return not now.lesson or (language, now.lesson, now.part) in _looked


FRESH_S, MOST_LOOKED = 1.0, 500
_looked: dict[tuple[str, str, str], tuple[float, Asked | None]] = {}


def _read(language: str, lesson: str, part: Part) -> Asked | None:
    spoken = language if language in reading.languages() else "en"
    found, _ = reading.read(spoken, lesson)
    if found is None and spoken != "en":
        found, _ = reading.read("en", lesson)
    return Asked(found, part, Words(spoken, reading.FOLDER)) if found is not None else None
