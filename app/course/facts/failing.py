"""Where guessing fails: high temperatures, losing cells, full servers, the first token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from app.course.live.measured import figures
from specdec_core.foundations.errors import SettingsError
from specdec_core.sampling import at_temperature
from specdec_measure import theory
from specdec_measure.analysis import whatif
from specdec_measure.machines import batches, profiles
from specdec_measure.machines.profiles import Profile
from specdec_measure.sweep.totals import mark

from .machines import prompt_seconds
from .recorded import trace

__all__ = [
    "cells_lost",
    "cells_measured",
    "crowd_speedup",
    "favourite_acceptance",
    "first_token_ratio",
    "over_temperatures",
    "rolled_acceptance",
    "served_speedup",
    "tendency",
]

SMALLEST_CHANGE = 0.005  # a smaller change counts as none


def rolled_acceptance(target: Sequence[float], draft: Sequence[float], temperature: float) -> float:
    """Acceptance of a guess that is drawn from the draft's own distribution at the target's temperature."""
    return theory.acceptance_rate([at_temperature(target, temperature)], [at_temperature(draft, temperature)])


def favourite_acceptance(target: Sequence[float], draft: Sequence[float], temperature: float) -> float:
    """Acceptance of a guess that is always the draft's most likely token."""
    return theory.acceptance_rate([at_temperature(target, temperature)], [at_temperature(draft, 0.0)])


def over_temperatures(
    kind: str, target: Sequence[float], draft: Sequence[float], temperatures: Sequence[float]
) -> list[float]:
    """Acceptance at each temperature, for a draft that is “rolled” or a “favourite”."""
    of = {"rolled": rolled_acceptance, "favourite": favourite_acceptance}[kind]
    return [of(target, draft, temperature) for temperature in temperatures]


def tendency(values: Sequence[float]) -> str:
    """“falls”, “rises”, “dips” (falls, then rises), “peaks” (rises, then falls), “other”; changes below half
    a percent are ignored."""
    steps = [other - one for one, other in pairwise(values)]
    directions = [1 if step > 0 else -1 for step in steps if abs(step) >= SMALLEST_CHANGE]
    turns = [
        direction for at, direction in enumerate(directions) if at == 0 or direction != directions[at - 1]
    ]
    return {(-1,): "falls", (1,): "rises", (-1, 1): "dips", (1, -1): "peaks"}.get(tuple(turns), "other")


def cells_measured() -> int:
    """How many pairs of text and proposer were measured."""
    return sum(len(cells) for cells in figures().cells.values())


def cells_lost(which: str = "speedup") -> int:
    """In how many of them plain decoding is faster: on the typical prompt (“speedup”) or on the “worst”."""
    rows = figures().cells.values()
    return sum(mark(getattr(cell, which)) == "▼" for cells in rows for cell in cells.values())


def crowd_speedup(example: str, profile: str, batch: int, context: int = 512) -> float:
    """Modelled speedup of an example's rounds on a machine of assets/profiles that generates `batch` texts at once."""
    found = crowd(example, profile, batch, context)
    if found is None:
        raise ValueError(f"{batch} texts of {context} tokens do not fit into the machine “{profile}”.")
    return found


@lru_cache(maxsize=4096)
def crowd(example: str, profile: str, batch: int, context: int) -> float | None:
    """The same; None if it does not fit into memory."""
    machine = machines(profile)
    try:
        return whatif.replay(trace(example), machine, batch=batch, context=context).speedup
    except SettingsError:
        return None


def served_speedup(proposer: str, batch: int) -> float:
    """Measured speedup of the bundled models over plain decoding with as many requests in each pass."""
    lane = served().of(proposer)
    found = lane.at(batch) if lane else None
    if found is None:
        raise ValueError(f"“{proposer}” was not measured with {batch} requests.")
    return found.speedup


def served() -> batches.Batches:
    """What was measured with several requests in each pass.

    Raises:
        ValueError: one sentence, if the file is missing or invalid.
    """
    return batches.read()


def first_token_ratio(profile: str, prompt: int, waits: bool = True) -> float:
    """Modelled time to the first token with a draft model relative to without, in a serving engine.

    There the target's pass over the prompt yields the first token. `waits`: the engine holds it back until the draft
    has read the prompt as well, which is the most that guessing can add; one that does not wait adds nothing.
    """
    target, draft = prompt_seconds(profile, prompt)
    return (target + (draft if waits else 0.0)) / target


@lru_cache(maxsize=32)
def machines(profile: str) -> Profile:
    """A bundled machine profile.

    Raises:
        ValueError: one sentence, if there is none of that name.
    """
    found, _ = profiles.shipped()
    if profile not in found:
        raise ValueError(f"There is no machine “{profile}”. Choose one of: {', '.join(found)}.")
    return found[profile]
