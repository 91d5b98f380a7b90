"""Set-ups for the bundled models: their speed, their extra arithmetic, and the best within a limit.

Chains of a fixed length are modelled for every γ, from the measured α and pass times. For other proposers
the speed is measured, and the arithmetic is that of the rounds of their recorded example, counted
in operations instead of seconds; EAGLE-3's example was recorded with a larger tree than was measured, so bounds follow
from its options. Operations are counted in plain target passes over one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from app.course.live.measured import KindFigures, figures
from specdec_core.proposers.heads.eagle3 import Eagle3
from specdec_measure import theory
from specdec_measure.analysis import whatif
from specdec_measure.machines import profiles
from specdec_measure.machines.costs import Costs
from specdec_measure.machines.profiles import RecordedProfile

from .recorded import trace

__all__ = ["design_speed", "design_work", "fastest_kind"]

LONGEST_CHAIN = 12  # the longest chain
CHAINS = ("draft-model", "draft-model, larger", "early-exit")
WIDE = ("lookahead", "branching", "medusa", "eagle", "mtp")
PARALLEL = "parallel-draft"
EAGLE3 = "eagle3"
LOOKUP = "prompt-lookup"
LOOKUP_LENGTH = 10  # and GAMMA: the settings of the measurement
GAMMA = 4
KINDS = {
    **dict.fromkeys((*CHAINS, PARALLEL), "chain"), **dict.fromkeys((*WIDE, EAGLE3), "wide"), LOOKUP: "lookup",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Design:
    """A set-up on one kind of text.

    Attributes:
        lane: its proposer, by its name in the measurements; “plain” is plain decoding.
        gamma: the length of its chains; 0 if it has none.
        speed: speedup over plain decoding.
        least, most: factor on the arithmetic operations; for a lookup and EAGLE-3 only bounds are known.
        modelled: whether the speed is the formula's; otherwise it was measured.
    """

    lane: str
    gamma: int
    speed: float
    least: float
    most: float
    modelled: bool

    @property
    def kind(self) -> str:
        """“chain”, “wide”, “lookup” or “plain”."""
        return KINDS.get(self.lane, "plain")


PLAIN = Design("plain", 0, 1.0, 1.0, 1.0, modelled=False)


def designs(group: str) -> tuple[Design, ...]:
    """All set-ups for a measured kind of text, plain decoding first.

    Raises:
        ValueError: if nothing was measured on it.
    """
    cells = figures().cells.get(group)
    if cells is None:
        raise ValueError(f"Nothing was measured on “{group}”. Choose one of: {', '.join(figures().cells)}.")
    found = [PLAIN]
    for lane, cell in cells.items():
        if lane in CHAINS and cell.alpha is not None:
            found += [_chain(lane, cell.alpha, gamma) for gamma in range(1, LONGEST_CHAIN + 1)]
        elif lane in (*WIDE, PARALLEL):
            work = _round(lane) / cell.tau
            found.append(Design(lane, 0, cell.speedup, work, work, modelled=False))
        elif lane == LOOKUP:
            found.append(Design(lane, 0, cell.speedup, *_lookup(cell), modelled=False))
        elif lane == EAGLE3:
            found.append(Design(lane, 0, cell.speedup, *_eagle3(cell), modelled=False))
    return tuple(found)


def design(group: str, lane: str, gamma: int = 0) -> Design:
    """One of them.

    Raises:
        ValueError: if there is no such set-up.
    """
    found = [each for each in designs(group) if each.lane == lane and each.gamma in (gamma, 0)]
    if not found:
        raise ValueError(f"There is no set-up “{lane}” with γ = {gamma} for “{group}”.")
    return found[0]


def within(group: str, limit: float) -> Design:
    """The fastest whose arithmetic certainly grows by at most `limit` (0.5: half as much again)."""
    return max((each for each in designs(group) if each.most <= 1.0 + limit), key=lambda each: each.speed)


def fastest_kind(group: str, limit: float | None = None) -> str:
    """The kind of the fastest: “chain”, “wide”, “lookup” or “plain”; without a limit, among all."""
    return within(group, float("inf") if limit is None else limit).kind


def design_speed(group: str, lane: str, gamma: int = 0) -> float:
    """Speedup of a set-up over plain decoding."""
    return design(group, lane, gamma).speed


def design_work(group: str, lane: str, gamma: int = 0) -> float:
    """Factor on its arithmetic; where only bounds are known, the upper one."""
    return design(group, lane, gamma).most


def _chain(lane: str, alpha: float, gamma: int) -> Design:
    found = figures()
    curve = found.curves["larger" if lane.endswith("larger") else "usual"]
    if lane == "early-exit":
        cost = _exit_cost()
        draft = cost * curve[1]
    else:
        draft_name = "draft-large" if lane.endswith("larger") else "draft"
        cost = found.parameters[draft_name] / found.parameters["target"]
        draft = found.draft_s["larger" if lane.endswith("larger") else "usual"]
    speed = theory.speedup_on(curve, theory.tokens_per_pass(alpha, gamma), gamma, draft)
    work = theory.operations(alpha, gamma, cost)
    return Design(lane, gamma, speed, work, work, modelled=True)


def _lookup(cell: KindFigures) -> tuple[float, float]:
    """Bounds on a lookup's arithmetic: tokens after a rejected guess were read too, but not counted."""
    kept = cell.tau - 1.0
    refused = kept * (1.0 - cell.alpha) / cell.alpha if cell.alpha else 1.0
    read = min(float(LOOKUP_LENGTH), kept + refused * LOOKUP_LENGTH)
    return (1.0 + kept + refused) / cell.tau, (1.0 + max(read, kept + refused)) / cell.tau


def _eagle3(cell: KindFigures) -> tuple[float, float]:
    """Bounds on the arithmetic of a full tree: the head's first pass reads one token, or all that were committed, and
    that of each further level all that are followed."""
    options = Eagle3.Options()
    header = trace(EAGLE3).header
    head = sum(part.parameters for part in header.heads) / header.target.parameters
    followed = (options.depth - 1) * options.top_k
    least, most = ((1 + options.nodes + head * (first + followed)) / cell.tau for first in (1, cell.tau))
    return least, most


@lru_cache(maxsize=16)
def _round(example: str) -> float:
    """Operations of a round of a recorded example, in plain passes."""
    home, header = _home(), trace(example).header
    ratio = header.draft.parameters / header.target.parameters if header.draft else 0.0
    costs = Costs(
        target=float,
        draft=lambda tokens: ratio * tokens,
        layers=home.target.layers,
        output_share=home.target.output_share,
        batch=1,
        context=0,
        pair="",
    )
    result = whatif.on_clock(trace(example), home, costs, home.target.layers)
    return result.seconds / len(result.rounds)


def _exit_cost() -> float:
    """A pass of the first layers plus the output matrix, relative to a whole pass."""
    part = _home().target
    share = figures().exit_layer / part.layers
    return share * (1.0 - part.output_share) + part.output_share


@lru_cache(maxsize=1)
def _home() -> RecordedProfile:
    """The profile of the bundled target, which has its sizes."""
    found, _ = profiles.shipped()
    return next(
        each
        for each in found.values()
        if isinstance(each, RecordedProfile) and each.target.name == "specdec-target"
    )
