"""Options of a proposer, a rule or a length policy: declared once as a pydantic model, validated by `read`, and
described by `fields` for all interfaces: the lab builds its widgets from them, URLs and the command line's
`--option name=value` are read with `parse`."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from specdec_core.foundations.errors import SettingsError, meant, sentence

FieldKind = Literal["whole", "number", "switch", "choice", "list", "text"]
MAX_TEXT = 4_000  # characters of a value as text
SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class OptionSet(BaseModel):
    """The options of one kind; a subclass declares each as a field with a default, bounds and a description.

    The command line and the lab build their controls from the fields, so users read a field's description.
    Numbers are strict: neither True nor "3" is accepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


Kind = TypeVar("Kind", bound=OptionSet)


def read(owner: str, kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """`given` as validated options of `owner` (e.g. "the proposer 'prompt-lookup'").

    Raises:
        SettingsError: naming the first option that is unknown or out of range, and listing the known ones.
    """
    for name in given:
        if name not in kind.model_fields:
            known = ", ".join(sorted(kind.model_fields)) or "none"
            raise SettingsError(
                f"{owner[:1].upper()}{owner[1:]} has no option '{name}'; its options are: {known}."
                + meant(name, kind.model_fields)
            )
    try:
        return kind(**given)
    except ValidationError as error:
        raise SettingsError(f"Option of {owner}: {sentence(error, fields(kind))}") from None


@dataclass(frozen=True, slots=True)
class OptionField:
    """One option.

    Attributes:
        kind: the type of its values: `list` holds numbers, or lists of whole numbers; `choice` is one of `choices`.
        default: None where omitting the option means something no value can express.
        low, high: the bounds, None where there is none; `low_open`, `high_open`: whether the bound itself is excluded.
        choices: the values of a `choice`, as they are (words, or numbers).
        help: the option's description, written for users.
        said: its name on screen, where `name` in words would not do.
    """

    name: str
    kind: FieldKind
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[Any, ...] = ()
    said: str = ""

    @property
    def title(self) -> str:
        """Its name on screen."""
        words = self.said or self.name.replace("_", " ")
        return words[:1].upper() + words[1:]

    @property
    def wanted(self) -> str:
        """The accepted values in words, such as "a whole number from 1 to 16"."""
        if self.kind == "choice":
            return "one of " + ", ".join(map(str, self.choices))
        words = {
            "whole": "a whole number",
            "number": "a number",
            "switch": "true or false",
            "list": "a list such as [1, 2] or [[0], [0, 1]]",
            "text": "a text",
        }[self.kind]
        low = "" if self.low is None else f"{'above' if self.low_open else 'from'} {self.low:g}"
        up_to = "to" if low and not self.low_open else "up to"
        high = "" if self.high is None else f"{'below' if self.high_open else up_to} {self.high:g}"
        return " ".join(
            part for part in (words, low, "and" if low and self.high_open and high else "", high) if part
        )

    def fits(self, value: float) -> bool:
        """Whether a number lies within the bounds."""
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    def read(self, text: str) -> Any:
        """The value that `text` names.

        Raises:
            ValueError: if it names none, or one outside the bounds; `wanted` says what it takes.
        """
        text = text.strip()
        if len(text) > MAX_TEXT:
            raise ValueError("too long")
        if self.kind == "whole":
            if len(text) > 20:
                raise ValueError("too long")
            return self._bounded(int(text))
        if self.kind == "number":
            return self._bounded(float(text))
        if self.kind in ("switch", "choice"):
            words = {str(value): value for value in self.choices} if self.kind == "choice" else SWITCH
            if text not in words:
                raise ValueError("unknown word")
            return words[text]
        return _list(text) if self.kind == "list" else text

    def write(self, value: Any) -> str:
        """`value` as text that `read` accepts."""
        if self.kind == "switch":
            return "true" if value else "false"
        if self.kind == "number":
            return f"{float(value):g}" if float(f"{float(value):g}") == value else repr(float(value))
        return json.dumps(value) if self.kind == "list" else str(value)

    def _bounded(self, value: Any) -> Any:
        if not (isfinite(value) and self.fits(value)):
            raise ValueError("out of bounds")
        return value


def fields(kind: type[BaseModel]) -> dict[str, OptionField]:
    """The options of one kind, in the order in which they are declared."""
    return {name: _field(name, info) for name, info in kind.model_fields.items()}


def parse(owner: str, known: Mapping[str, OptionField], given: Mapping[str, str]) -> dict[str, Any]:
    """Values from texts, e.g. {"max_ngram": "3"}; `owner` is such as "the proposer 'prompt-lookup'".

    Raises:
        SettingsError: naming the first option that is unknown, or whose text is no value of it.
    """
    values = {}
    for name, text in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise SettingsError(
                f"{owner[:1].upper()}{owner[1:]} has no option '{name}'; its options are: {names}."
                + meant(name, known)
            )
        try:
            values[name] = known[name].read(text)
        except ValueError:
            short = text if len(text) <= 40 else text[:37] + "…"
            raise SettingsError(
                f"Option '{name}' of {owner} has to be {known[name].wanted}, got '{short}'."
            ) from None
    return values


def _field(name: str, info: FieldInfo) -> OptionField:
    annotation = _without_none(info.annotation)
    default = info.get_default(call_default_factory=True)
    bounds: dict[str, Any] = {}
    for mark in info.metadata:
        if isinstance(mark, Ge | Gt):
            bounds |= {"low": mark.ge if isinstance(mark, Ge) else mark.gt, "low_open": isinstance(mark, Gt)}
        if isinstance(mark, Le | Lt):
            bounds |= {
                "high": mark.le if isinstance(mark, Le) else mark.lt,
                "high_open": isinstance(mark, Lt),
            }
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    kind = _kind(annotation)
    if kind == "list" and default is not None:
        default = [list(item) if isinstance(item, list | tuple) else item for item in default]
    said = " ".join((info.description or "").split())
    return OptionField(name, kind, default, said, **bounds, choices=choices, said=info.title or "")


def _kind(annotation: Any) -> FieldKind:
    origin = get_origin(annotation) or annotation
    if origin is Literal:
        return "choice"
    if origin is bool:
        return "switch"
    if origin is int:
        return "whole"
    if origin is float:
        return "number"
    return "list" if origin in (list, tuple) else "text"


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    rest = [part for part in get_args(annotation) if part is not type(None)]
    return rest[0] if len(rest) == 1 else annotation


def _list(text: str) -> list[int | float] | list[list[int]]:
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    flat = isinstance(value, list) and all(type(item) in (int, float) for item in value)
    nested = isinstance(value, list) and all(
        isinstance(item, list) and all(type(part) is int for part in item) for item in value
    )
    if not flat and not nested:
        raise ValueError("neither numbers nor lists of whole numbers")
    return cast(list[int | float] | list[list[int]], value)
