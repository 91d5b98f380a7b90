"""What a picture consists of: plain values, which a Streamlit page, a room's page and a file each draw in their way.

A picture's controls are `Choice`, `Button` and `Area`; what they were set to are its `Values`, by the controls' names,
with whatever a pressed button has set besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.charts.chart import Chart
from app.course.files.words import Words

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Html:
    """Markup, or a style sheet."""

    html: str


@dataclass(frozen=True, slots=True)
class Markdown:
    """Markdown; `label` stands before buttons, and `code` is to be copied."""

    text: str
    look: Literal["", "small", "label", "code"] = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message of the page's own; with a `share` between 0 and 1, how far something is."""

    kind: Literal["info", "warning", "error"]
    text: str
    icon: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A way to another page of the app."""

    label: str
    address: str
    icon: str


@dataclass(frozen=True, slots=True)
class Component:
    """A component with its data: the tree builder's, or the arguments of `app.player.data`."""

    name: str
    module: Literal["player", "tree"]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several `options`, each with its name in the page's language."""

    name: str
    label: str
    options: Sequence[Any]
    start: Any
    names: Sequence[str]
    look: Literal["slider", "buttons", "list"] = "slider"
    help: str | None = None
    width: int | None = None
    """Pixels."""
    most: Any = None
    """A choice above moves back to it."""
    off: bool = False
    resets: Sequence[str] = ()
    """The values that do not apply to another choice."""

    def of(self, values: Values) -> Any:
        """What is chosen: the value if it is an option, else the start."""
        value = values.get(self.name, self.start)
        value = value if value in self.options else self.start
        return value if self.most is None else min(value, self.most)


@dataclass(frozen=True, slots=True)
class Button:
    """A press sets these values; without any it is for the picture's `acted`, which a class does not have."""

    name: str
    label: str
    sets: Values | None = None
    icon: str = ""
    off: bool = False
    help: str | None = None


@dataclass(frozen=True, slots=True)
class Area:
    """A text of the learner's, up to so many characters long; `height` in pixels."""

    name: str
    label: str
    start: str
    most: int
    height: int
    placeholder: str | None = None
    help: str | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """A file, or what makes it when it is asked for."""

    name: str
    label: str
    data: bytes | Callable[[], str]
    file: str
    mime: str
    help: str | None = None
    off: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Parts side by side, several of them in one place as a tuple; in columns if they have relative `widths`, as many
    as there is room for if each has a `narrowest`."""

    parts: Sequence[Part | tuple[Part, ...]]
    widths: Sequence[int] = ()
    narrowest: int = 0
    gap: Literal["small", "medium", "large"] = "medium"
    align: Literal["top", "center", "bottom"] = "bottom"


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that are folded away until they are asked for."""

    label: str
    icon: str
    parts: Sequence[Part]


Part = (
    Html | Markdown | Notice | Link | Chart | Component | Choice | Button | Area | Download | Columns | Fold
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a picture is drawn: the id of the lesson or the claim, the step, and its language's words."""

    id: str
    step: str
    words: Words

    def key(self, name: str) -> str:
        """A control's key, unique to each lesson or claim, and step."""
        return f"course-{self.id}-{self.step}-{name}"


def each(parts: Iterable[Part | tuple[Part, ...]]) -> Iterator[Part]:
    """All parts in their order, those side by side one after the other; not what is folded away."""
    for part in parts:
        if isinstance(part, Columns | tuple):
            yield from each(part.parts if isinstance(part, Columns) else part)
        else:
            yield part


def choose(
    name: str, label: str, options: Sequence[Any], start: Any, named: Callable[[Any], str] = str, **more: Any
) -> Choice:
    """A choice of buttons, whose names are made of the options."""
    return Choice(name, label, options, start, tuple(map(named, options)), **({"look": "buttons"} | more))


def slide(
    name: str, label: str, options: Sequence[Any], start: Any, named: Callable[[Any], str] = str, **more: Any
) -> Choice:
    """A slider over such options."""
    return choose(name, label, options, start, named, look="slider", **more)


def scale(
    name: str,
    label: str,
    low: float,
    high: float,
    start: float,
    step: float,
    words: Words,
    form: str = ".2f",
    **more: Any,
) -> Choice:
    """A slider over the numbers between `low` and `high`, both included, in steps from `low`, written as the language
    writes them."""
    options = [round(low + step * at, 6) for at in range(round((high - low) / step) + 1)]
    nearest = min(options, key=lambda option: abs(option - start))
    return slide(name, label, options, nearest, lambda option: words.number(option, form), **more)


def style(module: str, *others: str) -> Html:
    """The style sheet beside a picture's module, after `others` beside it."""
    paths = [*(Path(module).with_name(f"{other}.css") for other in others), Path(module).with_suffix(".css")]
    sheets = (path.read_text(encoding="utf-8") for path in paths)
    return Html("".join(f"<style>{sheet}</style>" for sheet in sheets))
