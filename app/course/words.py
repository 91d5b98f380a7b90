"""The catalogue: every string of the course outside the lessons, from `assets/lessons/<language>/strings/`.

A key is the file's name, a dot, and the key in it: `steps.next` is `next` in `steps.toml`. Texts may name values in
braces, and choose a form by a count: `{passes} {passes:pass|passes}`. `language.toml` has the language's own name, its
plural rule as in gettext, and what separates thousands.
"""

from __future__ import annotations

import gettext
import string
import time
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from specdec_core import assets

FOLDER = assets() / "lessons"
PLAYER = "player"  # in a language's folder: modules text*.js that replace the player's


def catalogues() -> dict[str, Path]:
    """The languages that also have the player's texts, and where."""
    return {path.parent.name: path for path in sorted(FOLDER.glob(f"*/{PLAYER}")) if path.is_dir()}


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
        return _Forms(strings["language.plural"]).format(text, **values) if values else text

    def whole(self, number: int) -> str:
        """A whole number with its thousands apart: 10,000."""
        return f"{number:,}".replace(",", self("language.thousands"))

    @property
    def player(self) -> str | None:
        """The language of the player's texts: this one, if its folder has them."""
        return self.language if (self.folder / self.language / PLAYER).is_dir() else None

    def all(self) -> dict[str, str]:
        """Every string of this language by its key."""
        return _strings(self.folder / self.language)


class _Forms(string.Formatter):
    """Fills in values; a format such as `pass|passes` is the form for the value, by a language's plural rule."""

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" not in format_spec:
            return str(super().format_field(value, format_spec))
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
