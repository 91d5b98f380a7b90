"""The interactive pictures of the lessons, grouped by what they show: one module for each, found by its name.

A picture `x` is a module `x.py` (or `x_y.py` for `x-y`) with a model `With`, the parameters a lesson may set, and
`scene(given, values, at)`, what is drawn once its controls have these values. It may have

- `controls(given, values, at)`, at most three, which depend on what was chosen before them;
- `acted(name, act, given, values, at)`: the values to set after something that no value alone describes: a press, a
  text, what was done in a component;
- `active()`: whether something goes on that the picture shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from app.course.drawing.scene import Area, Choice, Part, Place, Values, each
from app.course.files.lesson import Picture

HERE = Path(__file__).parent


@cache
def names() -> dict[str, str]:
    """The existing pictures, and the module of each."""
    found = [path for path in HERE.glob("*/*.py") if path.name != "__init__.py"]
    return dict(
        sorted((path.stem.replace("_", "-"), f"{__name__}.{path.parent.name}.{path.stem}") for path in found)
    )


def check(picture: Picture) -> Any:
    """A picture's parameters, validated; a module may check more in its own `With`.

    Raises:
        pydantic.ValidationError, ValueError: if they are invalid.
    """
    return module(picture).With.model_validate(picture.given)


def controls(picture: Picture, at: Place, values: Values) -> Sequence[Part]:
    """The picture's controls as they are with these values."""
    made = getattr(module(picture), "controls", None)
    return made(check(picture), values, at) if made else ()


def chosen(parts: Sequence[Part], values: Values) -> dict[str, Any]:
    """The values, with what each of these controls has where it was not set, or to something that it cannot have."""
    found = dict(values)
    for part in each(parts):
        if isinstance(part, Choice):
            found[part.name] = part.of(values)
        elif isinstance(part, Area):
            found.setdefault(part.name, part.start)
    return found


def scene(picture: Picture, at: Place, values: Values) -> Sequence[Part]:
    """What is drawn below the controls with these values."""
    made: Sequence[Part] = module(picture).scene(
        check(picture), chosen(controls(picture, at, values), values), at
    )
    return made


def acted(picture: Picture, at: Place, values: Values, name: str, act: Any = None) -> Values:
    """The values to set after a press of the button `name`, or something done in the component or the text `name`."""
    react = getattr(module(picture), "acted", None)
    known = chosen(controls(picture, at, values), values)
    return react(name, act, check(picture), known, at) if react else {}


def module(picture: Picture) -> Any:
    """The picture's module.

    Raises:
        ValueError: if there is none.
    """
    if picture.picture not in names():
        raise ValueError(f"There is no picture “{picture.picture}”.")
    return import_module(names()[picture.picture])
