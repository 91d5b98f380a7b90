"""Tries several lengths and prefers the one that wrote most tokens per second."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import Field

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


class Bandit(LengthPolicy):
    """The lengths 0, 1, 2, 4, 8, … and γ are arms, and a round's tokens per second are the reward (UCB, Auer et al.
    2002; Nightjar, arXiv 2512.22420, has one per batch size). Old rounds fade, so that it follows the text. It measures
    time, so a run is not repeatable; it follows from earlier rounds alone, so the text's distribution is."""

    name = "bandit"
    title = "Bandit"
    summary = (
        "Tries lengths from none to γ and prefers those that wrote most tokens per second in earlier rounds. "
        "It needs no model of the costs, but pays for every try, and a short text ends before it has learnt."
    )

    FADES = 0.98  # the weight of a round, one round later

    class Options(LengthPolicy.Options):
        explore: float = Field(
            0.3,
            ge=0.0,
            le=10.0,
            description="How much a length that was tried seldom is preferred, in shares of the best speed.",
        )

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.sums: dict[int, list[float]] = {}  # by arm: rounds, tokens and seconds, faded
        self.arm: int | None = None

    def length(self, context: Context) -> int:
        most = context.settings.draft_length
        if not self.sums:
            arms = {0, most, *(2**power for power in range(most.bit_length()) if 2**power < most)}
            self.sums = {arm: [0.0, 0.0, 0.0] for arm in sorted(arms, reverse=True)}
        untried = [arm for arm, (rounds, *_) in self.sums.items() if not rounds]
        self.arm = untried[0] if untried else max(self.sums, key=self._hoped)
        return self.arm

    def observe(self, context: Context, outcome: Outcome) -> None:
        seconds = sum(outcome.seconds)
        if self.arm is None or seconds <= 0.0 or context.length < self.arm:
            return
        for sums in self.sums.values():
            sums[:] = [self.FADES * value for value in sums]
        latest = (1.0, float(len(outcome.tokens)), seconds)
        self.sums[self.arm] = [old + new for old, new in zip(self.sums[self.arm], latest, strict=True)]

    def _hoped(self, arm: int) -> float:
        """The arm's tokens per second over the best one's, and what is added to try it."""
        speeds = {each: tokens / seconds for each, (_, tokens, seconds) in self.sums.items()}
        everything = sum(rounds for rounds, *_ in self.sums.values())
        tried = max(self.sums[arm][0], 1e-9)
        bonus = math.sqrt(math.log(max(everything, math.e)) / tried)
        return speeds[arm] / max(speeds.values()) + float(self.options.explore) * bonus
