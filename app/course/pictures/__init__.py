"""The interactive pictures of the lessons: one module for each, found by its name.

A picture `x` is the module `x.py` (or `x_y.py` for `x-y`) with a model `With`, the parameters a lesson may set, and
`draw(given, at)`, which draws it. An interactive picture has at most three controls.
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
    """Where a picture is drawn: the id of the lesson or the claim, the step, and its language's words."""

    id: str
    step: str
    words: Words

    def key(self, name: str) -> str:
        """A widget's key, unique to each lesson or claim, and step."""
        return f"course-{self.id}-{self.step}-{name}"


@cache
def names() -> tuple[str, ...]:
    """The existing pictures."""
    return tuple(sorted(module.name.replace("_", "-") for module in iter_modules(__path__)))


def check(picture: Picture) -> Any:
    """A picture's parameters, validated; a module may check more in its own `With`.

    Raises:
        pydantic.ValidationError, ValueError: if they are invalid.
    """
    return _module(picture.picture).With.model_validate(picture.given)


def draw(picture: Picture, at: Place) -> None:
    """Draw a picture."""
    _module(picture.picture).draw(check(picture), at)


def _module(name: str) -> Any:
    if name not in names():
        raise ValueError(f"There is no picture “{name}”.")
    return import_module(f"{__name__}.{name.replace('-', '_')}")
