"""Every picture that a lesson or a claim names, at its step, in each language: what there is to see of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.course import pictures
from app.course.common_claims import claims
from app.course.drawing.scene import Area, Button, Choice, Fold, Html, Markdown, Part, Place, each
from app.course.files import reading
from app.course.files.lesson import Picture
from app.course.files.words import Words


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture where a lesson or a claim shows it."""

    at: Place
    picture: Picture

    @property
    def name(self) -> str:
        return f"{self.at.id}-{self.at.step}"

    def parts(self, values: dict[str, Any] | None = None) -> list[Part]:
        """All its parts with these values, what is folded away as well."""
        values = values or {}
        found = [
            *pictures.controls(self.picture, self.at, values),
            *pictures.scene(self.picture, self.at, values),
        ]
        return [*each(found), *(inner for part in found if isinstance(part, Fold) for inner in part.parts)]

    def labels(self) -> list[str]:
        """What its controls are called."""
        return [part.label for part in self.parts() if isinstance(part, Choice | Button | Area | Fold)]


def shown(language: str) -> Iterator[Shown]:
    """Lesson by lesson and step by step, then the claims'."""
    words = Words(language, reading.FOLDER)
    for _, key, _, _ in reading.titles(language):
        lesson, problems = reading.read(language, key)
        assert lesson is not None, problems
        for step, picture in lesson.pictures.items():
            yield Shown(Place(key, step, words), picture)
    for claim in claims.every(language)[0]:
        if claim.front.picture is not None:
            yield Shown(Place(claim.id, "claim", words), claim.front.picture)


def picture(lesson: str, step: str, language: str = "en") -> Shown:
    """The picture of a lesson's step."""
    return next(one for one in shown(language) if (one.at.id, one.at.step) == (lesson, step))


def written(parts: list[Part]) -> str:
    """All markup and Markdown of these parts."""
    found = (
        part.html if isinstance(part, Html) else part.text
        for part in parts
        if isinstance(part, Html | Markdown)
    )
    return "\n".join(found)
