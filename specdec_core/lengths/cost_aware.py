"""Draft as far as it pays on this machine: expected tokens against the measured width curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from specdec_core.runtime.timing.pass_times import pass_time

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


def _starts_at_1(curve: list[float]) -> list[float]:
    if curve and curve[0] != 1.0:
        raise ValueError("a curve is T(n)/T(1) for n = 1, 2, 3, …, so its first number is 1")
    return curve


Ratio = Annotated[float, Field(gt=0.0, le=1e6)]


class CostAware(LengthPolicy):
    """Drafts as long as a further token is expected to raise tokens per second, by this machine's width curve.

    With k tokens drafted the round is expected to commit E(k) = 1 + Σ_i a_1 ⋯ a_i tokens in k T_d + T(k + 1) seconds,
    a_i being the probability that token i is accepted. For a drafted token it is estimated from earlier tokens of
    similar confidence, (accepted + S·confidence) / (judged + S) within its tenth of the confidence scale, which is the
    draft's own estimate until there is data. For tokens yet to be drafted it is the rate of all tokens so far.
    The policy goes on while some longer draft is expected to commit more tokens per second than the current one.

    Proposers that do not call `more` get the best length at the rate so far, but at least 2: of their
    rounds only what follows an accepted first token counts, as a round without a guess looks like a wrong one.

    A tree gets another level if the best tree is then expected to commit more tokens per second, each node that would
    get children counting as followed by one, at the rate at which the draft's estimates have fallen from level to
    level so far; and those of its nodes are sent that raise tokens per second. Of a tree whose nodes were drawn all are
    sent, although its levels are chosen as if the less likely ones were not.
    """

    name = "cost-aware"
    title = "Cost-aware"
    summary = (
        "Measures how long passes of each width take on this machine and drafts as long as a token is worth its time. "
        "It is slower when the draft's confidence says little about acceptance, or when the machine's load changes."
    )
    can_stop = True
    sets = ("length", "more", "deeper", "nodes")

    SURE = 4.0  # S: how many judged tokens the draft's own confidence weighs
    HOPE = (4.0, 5.0)  # accepted and judged tokens to begin with: optimistic, so that drafting is tried
    PROBE = 8  # where drafting does not pay, one round in this many tries again

    class Options(LengthPolicy.Options):
        curve: Annotated[list[Ratio], AfterValidator(_starts_at_1)] = Field(
            [],
            max_length=1_000,
            description="T(n)/T(1) for passes over n = 1, 2, 3, … tokens, such as [1, 1.02, 1.05]; the last slope "
            "continues. Models another machine, or makes a run repeatable. If empty, it is measured.",
        )
        cost_ratio: float | None = Field(
            None,
            ge=0.0,
            le=1e3,
            description="Time to draft one level, over that of a plain target pass. If left out, it is measured: the "
            "draft model's pass or, without a draft model, what drafting took in earlier rounds.",
        )

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.curve: dict[int, float] = dict(enumerate(options.curve, start=1))  # T(n)/T(1), as far as needed
        self.cost: float = options.cost_ratio or 0.0
        self.unit: float | None = None  # T(1) in seconds, if the cost ratio is learnt from the rounds
        self.informed = bool(self.curve) and options.cost_ratio is not None
        self.accepted, self.judged = self.HOPE
        self.tenths = [[0.0, 0.0] for _ in range(10)]  # accepted and judged, by tenths of the confidence
        self.confidences: list[float] = []  # of this round's tokens, as passed to `more`
        self.drafted = 0  # levels of this round
        self.asked = self.ranks = False  # whether this proposer calls `more`; whether it ranks nodes
        self.grown = 0  # levels of this round's tree, of a proposer that calls `deeper`
        self.front = 1.0  # what the tree's nodes to continue summed to, one level up
        self.fallen, self.fronts = self.HOPE  # such sums, each over that one level up, and their number

    def _measure(self) -> None:
        """Fill in from this machine what the options leave unset."""
        from specdec_core.runtime.timing.width_curve import known_curve

        assert self.resources is not None, "only a plan builds a policy that measures"
        measured = known_curve(self.resources.models)
        self.curve = self.curve or measured.ratios
        if self.options.cost_ratio is None:
            if self.resources.draft is not None:
                self.cost = measured.cost_ratio or 0.0
            else:
                self.unit = measured.seconds[0]
        self.informed = True

    def length(self, context: Context) -> int:
        if not self.informed:  # now, as a plan must cost nothing; no phase is on the lane's clock yet
            self._measure()
        wanted = context.settings.draft_length
        self.drafted = self.grown = 0
        if self.ranks or context.round == 0:
            return wanted
        best = self.best([], wanted)
        if self.asked:
            return wanted if best or context.round % self.PROBE == 0 else 0
        return min(wanted, max(2, best))

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        self.asked = True
        self.confidences[drafted - 1 :] = [confidence]
        chances = [self.chance(value) for value in self.confidences]
        further = self.best(chances, min(context.length, context.room)) > drafted
        self.drafted = drafted + further
        return further

    def deeper(
        self, context: Context, levels: int, values: Sequence[float], front: Sequence[float], room: int
    ) -> bool:
        reached = sum(front)
        self.fallen += reached / (self.front if levels > 1 else 1.0)
        self.fronts += 1
        self.front = reached
        rate = self.fallen / self.fronts
        further = [*values, *(rate * value for value in front)]
        now, then = (
            max(self._speeds(sorted(tree, reverse=True)[:room], count))
            for tree, count in ((values, levels), (further, levels + 1))
        )
        self.grown = levels + (then > now)
        return then > now

    def nodes(self, context: Context, values: Sequence[float], levels: int | None = None) -> int:
        self.ranks = True
        self.grown = levels or self.grown
        speeds = self._speeds(values, self.grown or context.length)
        return speeds.index(max(speeds))

    def _speeds(self, values: Sequence[float], levels: int) -> list[float]:
        """Expected tokens per T(1) with the first 0, 1, 2, … nodes of a tree."""
        expected = enumerate(accumulate(values, initial=1.0))
        return [tokens / (levels * self.cost + self.time(count + 1)) for count, tokens in expected]

    def observe(self, context: Context, outcome: Outcome) -> None:
        accepted = len(outcome.path)
        levels = self.grown or self.drafted or min(context.length, context.room)
        if self.unit is not None and levels > 0:
            latest = max(0.0, outcome.seconds[0]) / (levels * self.unit)
            self.cost += (latest - self.cost) / 4
        for place, confidence in enumerate(self.confidences[: accepted + 1]):
            self._count(place < accepted, self.tenths[_tenth(confidence)])
        if not self.asked and not self.ranks:
            for place in range(1, min(accepted + 1, levels) if accepted else 1):
                self._count(place < accepted)
        self.confidences = []

    def best(self, chances: Sequence[float], most: int) -> int:
        """The draft length, from what is drafted to `most`, with the most expected tokens per second.

        Args:
            chances: of the tokens drafted so far, to be accepted if reached.
        """
        drafted, rate = len(chances), self.accepted / self.judged
        reached = accumulate([*chances, *[rate] * (most - drafted)], mul)
        expected = enumerate(accumulate(reached, initial=1.0))
        speeds = [tokens / (count * self.cost + self.time(count + 1)) for count, tokens in expected][drafted:]
        return drafted + speeds.index(max(speeds))

    def chance(self, confidence: float) -> float:
        """The acceptance probability of a token of that confidence, from earlier such tokens."""
        accepted, judged = self.tenths[_tenth(confidence)]
        return (accepted + self.SURE * confidence) / (judged + self.SURE)

    def time(self, tokens: int) -> float:
        """T(n)/T(1)."""
        if tokens not in self.curve:
            self.curve[tokens] = pass_time(self.curve, tokens)
        return self.curve[tokens]

    def _count(self, accepted: bool, tenth: list[float] | None = None) -> None:
        self.accepted += accepted
        self.judged += 1
        if tenth is not None:
            tenth[0] += accepted
            tenth[1] += 1


def _tenth(confidence: float) -> int:
    return min(9, int(10 * confidence))
