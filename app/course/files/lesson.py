"""The structure of a lesson: its front matter, and the sections of its text. `reading` fills both from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SECTIONS = ("hook", "predict", "watch", "change", "explain", "code", "check", "lab")
STEPS = ("predict", "watch", "change", "explain", "code", "check", "lab")  # the hook opens the first
MOST_WORDS = 90  # on one screen

Given = str | float | list[str]
"""An answer: an option, a number, or several options."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
Expression = Annotated[str, Field(min_length=1, max_length=200)]
Misconception = Annotated[str, Field(pattern=r"^M(1[0-2]|[1-9])$")]
Belief = Annotated[str, Field(pattern=r"^M([235-9]|12|(1|4|10|11)[ab])$")]
"""A misconception, or the half of it that one wrong answer shows; see strings/misconceptions.toml."""


class Strict(BaseModel):
    """A part of the front matter; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Picture(Strict):
    """A picture of `pictures/` by name, and its parameters."""

    picture: str
    given: dict[str, Any] = Field({}, alias="with")


class Predict(Strict):
    """How to ask for the prediction, and how the core finds the right one.

    `choice` and `several`: `right` has a condition for each option of the text, by its key (in a choice exactly
    one is true). `number`: `answer` is computed; a prediction within the relative `tolerance` counts as right.
    """

    kind: Literal["choice", "several", "number"] = "choice"
    ordered: bool = False
    """Whether the options are a scale, or places of the picture, and so keep their order for everybody."""
    right: dict[str, Expression] = {}
    answer: Expression | None = None
    low: float = 0.0
    high: float = 100.0
    step: float = 1.0
    tolerance: float = Field(0.1, ge=0.0, le=1.0)
    picture: Picture | None = None
    """What is looked at while predicting; it must not give the answer away."""


class Explain(Strict):
    """One formula in LaTeX; the text's items explain its terms."""

    formula: str = Field(min_length=1, max_length=300)
    picture: Picture | None = None


class Code(Strict):
    """The source of a function, method or class of the core, and for each item of the text its line.

    `lights` maps the item's key to a piece of text that occurs in exactly one line of the source.
    """

    of: str = Field(pattern=r"^specdec_(core|measure|lessons)(\.\w+)*:\w+(\.\w+)*$")
    lights: dict[str, str] = Field(min_length=1)


class Check(Strict):
    """The question at the end: `right` as in a prediction by choice; wrong options may name their misconception."""

    right: dict[str, Expression] = Field(min_length=2)
    mistakes: dict[str, Belief] = {}

    def misconception(self, option: str) -> Misconception | None:
        """The whole misconception of which a wrong option shows perhaps one half; None if it names none."""
        return self.mistakes[option].rstrip("ab") if option in self.mistakes else None


class Lab(Strict):
    """A page of the app and the settings in its address; a list gives a key several times."""

    page: Literal["lab", "compare", "library"] = "lab"
    settings: dict[str, str | int | float | list[str]] = {}


class LessonFront(Strict):
    """The front matter of a lesson."""

    title: str = Field(min_length=1, max_length=60)
    about: str = Field("", max_length=90, pattern=r"^\D*$")
    """What it shows, in one line for the list of lessons; it must not give the prediction away."""
    gallery: bool = False
    """Whether it is one of those of which a learner chooses some."""
    misconceptions: list[Misconception] = []
    given: dict[str, Any] = {}
    """Numbers and lists that the text and the pictures take as given."""
    facts: dict[str, Expression] = {}
    """Names for what the core computes; later ones may use earlier ones and what is given."""
    predict: Predict
    watch: Picture
    change: Picture
    explain: Explain
    code: Code
    check: Check
    lab: Lab


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a section's list: `- key: text`, and the quoted lines below it."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a lesson's text, numbers filled in: Markdown, and its list by key."""

    prose: str
    items: Mapping[str, Item]

    def words(self, with_notes: bool = True) -> int:
        """Number of words the learner sees at once: the prose, the list and, `with_notes`, the longest of its notes."""
        notes = max((_words(item.note) for item in self.items.values()), default=0) if with_notes else 0
        return _words(self.prose) + sum(_words(item.text) for item in self.items.values()) + notes


def _words(text: str) -> int:
    """Number of words; a sign by itself, as in 60%, is none."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


@dataclass(frozen=True, slots=True)
class Lesson:
    """A valid lesson."""

    id: str
    number: str
    """What precedes its title: 0, 6a; the beginning of the file's name."""
    front: LessonFront
    sections: Mapping[str, Section]
    facts: Mapping[str, Any]
    right: Mapping[str, frozenset[str]]
    """The keys of the right options of `predict` and `check`."""
    answer: float | None
    """The right number, where a number is predicted."""

    @property
    def pictures(self) -> dict[str, Picture]:
        """Its pictures by the steps that show them."""
        front = self.front
        found = (front.predict.picture, front.watch, front.change, front.explain.picture)
        return {step: picture for step, picture in zip(STEPS, found, strict=False) if picture is not None}

    @property
    def band(self) -> float:
        """How far off a right number may be."""
        return self.front.predict.tolerance * abs(self.answer or 0.0)

    def is_right(self, part: str, given: Given) -> bool:
        """Whether an answer to `predict` or `check` is right; a number within its tolerance is."""
        if isinstance(given, list):
            return frozenset(given) == self.right[part]
        if isinstance(given, str):
            return given in self.right[part]
        assert self.answer is not None
        return abs(given - self.answer) <= self.band


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a lesson's file: where it is, what it is and how to fix it, in one sentence."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"
