"""What was measured of the bundled models, by text and proposer: assets/models/measurements.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .words import Words

FILE = Path(__file__).resolve().parents[2] / "assets" / "models" / "measurements.json"


@dataclass(frozen=True, slots=True)
class Cell:
    """One proposer on one kind of text: medians over prompts, its worst and its best prompt, and α of chains."""

    speedup: float
    worst: float
    best: float
    tau: float
    alpha: float | None
    prompts: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of them. `curves` and `draft_s` hold T(n) and the time of a draft pass in seconds, for either draft."""

    cells: Mapping[str, Mapping[str, Cell]]
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
    """What the file says now."""
    return _read(FILE, FILE.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Figures:
    content = json.loads(path.read_text(encoding="utf-8"))
    found = content["figures"]
    exits = found["exits"]
    return Figures(
        cells={
            group: {name: _cell(lane) for name, lane in lanes["lanes"].items()}
            for group, lanes in found["groups"].items()
        },
        curves={
            which: dict(zip(curve["widths"], curve["seconds"], strict=True))
            for which, curve in found["curves"].items()
        },
        draft_s={which: curve["draft_s"] for which, curve in found["curves"].items()},
        exit_layer=int(max(exits, key=lambda layer: exits[layer]["speedup"])),
        parameters=content["parameters"],
        machine=found["machine"],
        date=found["date"][:10],
    )


def _cell(lane: Mapping[str, Any]) -> Cell:
    return Cell(
        speedup=lane["speedup"],
        worst=lane["speedup_low"],
        best=lane["speedup_high"],
        tau=lane["tokens_per_pass"],
        alpha=lane["alpha"],
        prompts=lane["prompts"],
    )


def name(of: str, raw: str, words: Words) -> str:
    """What a “text” or a proposer (“lane”) of the file is called; its name there where no catalogue has it."""
    try:
        return words(f"measured.{of}-{re.sub('[^a-z0-9]+', '-', raw.lower()).strip('-')}")
    except KeyError:
        return raw


def source(words: Words) -> str:
    """Where and when it was measured, for a picture's caption."""
    found = figures()
    return words("measured.source", machine=found.machine, date=found.date)
