"""The prompts that ship with the app: one TOML file per family in assets/prompts."""

from __future__ import annotations

import logging
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

log = logging.getLogger(__name__)

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "prompts"
ORDER = ("story", "code", "copy", "summary", "question", "arithmetic", "poem")


class _Prompt(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=60)
    text: str = Field(min_length=1, max_length=20_000)
    look_for: str = Field(min_length=1, max_length=400)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=40)
    description: str = Field(min_length=1, max_length=400)
    prompt: list[_Prompt] = Field(min_length=1, max_length=20)


@dataclass(frozen=True, slots=True)
class Preset:
    """One prompt: `id` is what a link names, `look_for` what a student should watch."""

    id: str
    name: str
    text: str
    look_for: str


@dataclass(frozen=True, slots=True)
class Family:
    """Prompts of one kind of text."""

    name: str
    title: str
    description: str
    presets: tuple[Preset, ...]


@cache
def families(folder: Path = FOLDER) -> tuple[Family, ...]:
    """All families, in teaching order. A file that breaks the format is left out and named in the log."""
    found = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            content = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, ValidationError, UnicodeDecodeError) as error:
            log.error("prompts: %s is left out: %s", path.name, error)
            continue
        found[path.stem] = Family(
            name=path.stem,
            title=content.title,
            description=content.description,
            presets=tuple(
                Preset(f"{path.stem}/{_slug(item.name)}", item.name, item.text, item.look_for)
                for item in content.prompt
            ),
        )
    order = [name for name in ORDER if name in found] + sorted(found.keys() - set(ORDER))
    return tuple(found[name] for name in order)


def find(preset_id: str | None) -> Preset | None:
    """The preset of that id."""
    return next((item for family in families() for item in family.presets if item.id == preset_id), None)


def matching(text: str) -> Preset | None:
    """The preset whose text this is, unchanged."""
    return next((item for family in families() for item in family.presets if item.text == text), None)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
