"""What is watched and changed in a lesson: one module for each picture, found by its name.

A picture `x` is the module `x.py` (or `x_y.py` for `x-y`) with a model `With`, what a lesson may ask of it, and
`draw(given, at)`, which draws it. A picture that lets the learner change something has at most three controls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from app.course.lesson import Picture
from app.course.words import Words


@dataclass(frozen=True, slots=True)
class Place:
    """Where a picture is drawn: the id of the lesson or the claim, the step, and the words of its language."""

    id: str
    step: str
    words: Words

    def key(self, name: str) -> str:
        """A widget's key, of its own for each lesson or claim, and step."""
        return f"course-{self.id}-{self.step}-{name}"


@cache
def names() -> tuple[str, ...]:
    """The pictures there are."""
    return tuple(sorted(module.name.replace("_", "-") for module in iter_modules(__path__)))


def check(picture: Picture) -> Any:
    """What a picture is to show, validated; a module may refuse more in its own `With`.

    Raises:
        pydantic.ValidationError, ValueError: where it cannot show that.
    """
    return _module(picture.picture).With.model_validate(picture.given)


def draw(picture: Picture, at: Place) -> None:
    """Draw a picture."""
    _module(picture.picture).draw(check(picture), at)


def _module(name: str) -> Any:
    if name not in names():
        raise ValueError(f"There is no picture “{name}”.")
    return import_module(f"{__name__}.{name.replace('-', '_')}")
