"""The catalogue: every string of the course outside the lessons, from `assets/lessons/<language>/strings/`.

A key is the file's name, a dot, and the key in it: `steps.next` is `next` in `steps.toml`. Texts may name values in
braces, and choose a form by a count: `{passes} {passes:pass|passes}`. `language.toml` has the language's own name, its
plural rule as in gettext, and how it writes numbers.
"""

from __future__ import annotations

import gettext
import string
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from app.export import served
from specdec_core.foundations.paths import assets

FOLDER = assets() / "lessons"


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language writes numbers: what separates decimals and thousands, and the sign for per cent."""

    decimal: str = "."
    thousands: str = ","
    percent: str = "%"

    def __call__(self, value: Any, spec: str = "") -> str:
        """A value in one of Python's formats, a number with this language's signs."""
        text = format(value, spec)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return text
        return "".join(
            {".": self.decimal, ",": self.thousands, "%": self.percent}.get(one, one) for one in text
        )


class Words:
    """The strings of one language; missing ones are taken from English."""

    def __init__(self, language: str, folder: Path) -> None:
        self.language, self.folder = language, folder

    def __call__(self, key: str, /, **values: Any) -> str:
        """The text of a key, with its values filled in.

        Raises:
            KeyError: if no language has it, or the text uses a value that is not given.
        """
        strings = self.all()
        if key not in strings:
            strings = _strings(self.folder / "en")
        text = strings[key]
        return _Forms(strings["language.plural"], self.number).format(text, **values) if values else text

    @property
    def number(self) -> Notation:
        """Writes a number as this language does: `words.number(0.25, ".0%")`."""
        own, english = self.all(), _strings(self.folder / "en")
        keys = {sign: f"language.{sign}" for sign in ("decimal", "thousands", "percent")}
        return Notation(
            **{
                sign: own.get(key) or english[key]
                for sign, key in keys.items()
                if key in own or key in english
            }
        )

    def whole(self, number: int) -> str:
        """A whole number with its thousands apart: 10,000."""
        return self.number(number, ",")

    @property
    def player(self) -> str | None:
        """The language of the player's texts: this one, if its folder has them."""
        return self.language if self.language in served.catalogues(self.folder) else None

    def all(self) -> dict[str, str]:
        """Every string of this language by its key."""
        return _strings(self.folder / self.language)


class _Forms(string.Formatter):
    """Fills in values; a format such as `pass|passes` is the form for the value, by a language's plural rule."""

    def __init__(self, rule: str, number: Notation) -> None:
        self.rule, self.number = rule, number

    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" not in format_spec:
            return self.number(value, format_spec)
        return format_spec.split("|")[_plural(self.rule)(value)]


@cache
def _plural(rule: str) -> Callable[[int], int]:
    """Which form a count takes, by a rule in gettext's notation: `n != 1`."""
    return gettext.c2py(rule)


def _strings(folder: Path) -> dict[str, str]:
    """The strings of a folder; a page needs dozens at a time, so the files are checked once a second."""
    now = time.monotonic()
    if folder not in _looked or now - _looked[folder][0] > FRESH_S:
        files = sorted((folder / "strings").glob("*.toml"))
        _looked[folder] = now, _read(tuple((path, path.stat().st_mtime_ns) for path in files))
    return _looked[folder][1]


FRESH_S = 1.0
_looked: dict[Path, tuple[float, dict[str, str]]] = {}


@lru_cache(maxsize=16)
def _read(files: tuple[tuple[Path, int], ...]) -> dict[str, str]:
    found = {}
    for path, _ in files:
        for key, text in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if not isinstance(text, str):
                raise ValueError(f"{path.name}: “{key}” has to be a text.")
            found[f"{path.stem}.{key}"] = text
    return found
