"""Measurements of the bundled models, by text and proposer: assets/models/measurements.json, validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.course.files.words import Words
from specdec_core.foundations.errors import sentence
from specdec_core.foundations.paths import assets
from specdec_measure.machines.profiles import Profile, RecordedProfile

MEASUREMENTS = assets() / "models" / "measurements.json"


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Above = Annotated[float, Field(gt=0.0, le=1e6)]


class Known(BaseModel):
    """A part of the file; other keys are ignored here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class LaneFigures(Known):
    """One proposer on a group of prompts: medians over prompts, the worst and the best of them, and the pooled α.

    Only chains have an α.
    """

    tokens_per_pass: Annotated[float, Field(ge=1.0, le=1_000)]
    speedup: Above
    speedup_low: Above | None = None
    speedup_high: Above | None = None
    alpha: Share | None = None
    prompts: int = 1


class Group(Known):
    """A family of prompts: its proposers, and the fastest."""

    lanes: dict[str, LaneFigures]
    best: str


class Curve(Known):
    """T(n) of the target, and the time of a draft pass, in seconds."""

    widths: Annotated[list[int], Field(min_length=2)]
    seconds: Annotated[list[Above], Field(min_length=2)]
    draft_s: Above | None = None


class MeasuredFigures(Known):
    """The measurements made with the models."""

    date: str
    machine: str
    exits: dict[str, LaneFigures]
    groups: dict[str, Group]
    curves: dict[str, Curve]


class FiguresFile(Known):
    """The file."""

    parameters: dict[str, Annotated[int, Field(gt=0)]]
    figures: MeasuredFigures


def card() -> FiguresFile:
    """The bundled figures.

    Raises:
        ValueError: one sentence, if the file is missing or invalid.
    """
    try:
        return _card(MEASUREMENTS, MEASUREMENTS.stat().st_mtime_ns)
    except OSError:
        raise ValueError(
            f"{MEASUREMENTS.name} is missing; `python -m training card` measures it again."
        ) from None


@lru_cache(maxsize=4)
def _card(path: Path, _changed: int) -> FiguresFile:
    try:
        return FiguresFile.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(
            f"{path.name} is not as it should be ({sentence(error)}); `python -m training card` measures it again."
        ) from None


@dataclass(frozen=True, slots=True)
class KindFigures:
    """One proposer on one kind of text: medians over prompts, its worst and its best prompt, and α of chains."""

    speedup: float
    worst: float
    best: float
    tau: float
    alpha: float | None
    prompts: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All measurements. `curves` and `draft_s` hold T(n) and the time of a draft pass in seconds, for either draft."""

    cells: Mapping[str, Mapping[str, KindFigures]]
    curves: Mapping[str, Mapping[int, float]]
    draft_s: Mapping[str, float]
    exit_layer: int
    parameters: Mapping[str, int]
    machine: str
    date: str

    @property
    def lanes(self) -> list[str]:
        """The proposers, in their order."""
        return list(dict.fromkeys(lane for cells in self.cells.values() for lane in cells))


def figures() -> Figures:
    """The file's current content.

    Raises:
        ValueError: like `card`.
    """
    return _figures(MEASUREMENTS, MEASUREMENTS.stat().st_mtime_ns if MEASUREMENTS.is_file() else 0)


@lru_cache(maxsize=4)
def _figures(_path: Path, _changed: int) -> Figures:
    shipped = card()
    found = shipped.figures
    return Figures(
        cells={
            group: {name: _cell(line) for name, line in one.lanes.items()}
            for group, one in found.groups.items()
        },
        curves={
            which: dict(zip(curve.widths, curve.seconds, strict=True))
            for which, curve in found.curves.items()
        },
        draft_s={which: curve.draft_s for which, curve in found.curves.items() if curve.draft_s},
        exit_layer=int(max(found.exits, key=lambda layer: found.exits[layer].speedup)),
        parameters=shipped.parameters,
        machine=found.machine,
        date=found.date[:10],
    )


def _cell(line: LaneFigures) -> KindFigures:
    return KindFigures(
        speedup=line.speedup,
        worst=line.speedup_low or line.speedup,
        best=line.speedup_high or line.speedup,
        tau=line.tokens_per_pass,
        alpha=line.alpha,
        prompts=line.prompts,
    )


def name(of: str, raw: str, words: Words) -> str:
    """The title of a “text” or a proposer (“lane”) of the file; its name there if no catalogue has one."""
    try:
        return words(f"measured.{of}-{re.sub('[^a-z0-9]+', '-', raw.lower()).strip('-')}")
    except KeyError:
        return raw


def source(words: Words) -> str:
    """Where and when it was measured, for a picture's caption."""
    found = figures()
    return words("measured.source", machine=found.machine, date=found.date)


def origin(profile: Profile, words: Words) -> str:
    """The source of a machine's times, for a picture's caption."""
    if isinstance(profile, RecordedProfile):
        where = {"machine": profile.machine, "date": profile.date[:10]}
        if profile.device == "cpu":
            return words("measured.recorded_threads", threads=profile.threads, **where)
        return words("measured.recorded", **where)
    return words("measured.modelled", label=profile.label)
