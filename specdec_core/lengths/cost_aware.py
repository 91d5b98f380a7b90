"""Draft as far as it pays on this machine: expected tokens against the measured width curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from specdec_core.runtime.timing.pass_times import pass_time

from .base import LengthPolicy
from .survival import Survival

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
    a_i being the probability that token i is accepted. For a drafted token it is the online fit's (`Survival`), by its
    confidence and depth. For tokens yet to be drafted it is the rate of all tokens so far.
    The first round goes on while some longer draft is expected to commit more tokens per second than the current one.
    Later ones know the pace so far, and go on while a longer draft is expected to commit more than its time is worth at
    that pace: a round that begins badly is left earlier, and a good one later, than by its own tokens per second. Of a
    block, whose slots are all guessed in one pass, the best number is sent by the same measure.

    It is lossless because what it decides about a token depends only on the text, on earlier rounds, and on the tokens
    before it. The budget that is best for a whole drawn block depends on all of its tokens, the first one included,
    and cutting it there would write another distribution (`specdec_measure.exact.budgets`).

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
    sets = ("length", "more", "slots", "deeper", "nodes")

    HOPE = (4.0, 5.0)  # accepted and judged tokens to begin with: optimistic, so that drafting is tried
    PROBE = 8  # where drafting does not pay, one round in this many tries again
    WHOLE = 3  # rounds at first in which all slots of a block are sent, so that all depths are judged

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
        self.survival = Survival()
        self.confidences: list[float] = []  # of this round's tokens, as passed to `more` or sent by `slots`
        self.drafted = 0  # levels of this round
        self.written = self.spent = (
            0.0  # tokens and time of the rounds so far, in T(1): their quotient is the pace
        )
        self.passes: int | None = None  # that guess a block, however long; None where each token takes one
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
        chances = self.survival.chances(self.confidences)
        further = self.best(chances, min(context.length, context.room)) > drafted
        self.drafted = drafted + further
        return further

    def slots(self, context: Context, confidences: Sequence[float], passes: int = 1) -> int:
        self.asked, self.passes, self.drafted = True, passes, passes
        survivals = accumulate(self.survival.chances(confidences), mul, initial=1.0)
        best = self._worth(list(accumulate(survivals)), [passes] * (len(confidences) + 1))
        if context.round < self.WHOLE or (not best and context.round % self.PROBE == 0):
            best = len(confidences)
        self.confidences = list(confidences[:best])
        return best

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
        self.survival.observe(self.confidences, accepted)
        if self.asked:
            sent = len(self.confidences)
            self.written += len(outcome.tokens)
            self.spent += min(sent, self.passes or sent) * self.cost + self.time(sent + 1)
        for place in range(min(len(self.confidences), accepted + 1)):
            self._count(place < accepted)
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
        expected = list(accumulate(reached, initial=1.0))
        levels = [min(count, self.passes or count) for count in range(len(expected))]
        return drafted + self._worth(expected, levels, drafted)

    def _worth(self, expected: Sequence[float], levels: Sequence[int], least: int = 0) -> int:
        """How many guesses beyond `least` are worth their time, given the tokens expected of each number of them and
        the levels that are drafted for it."""
        times = [count * self.cost + self.time(number + 1) for number, count in enumerate(levels)]
        pairs = list(zip(expected, times, strict=True))[least:]
        if self.spent:
            values = [tokens - self.written / self.spent * time for tokens, time in pairs]
        else:
            values = [tokens / time for tokens, time in pairs]
        return values.index(max(values))

    def time(self, tokens: int) -> float:
        """T(n)/T(1)."""
        if tokens not in self.curve:
            self.curve[tokens] = pass_time(self.curve, tokens)
        return self.curve[tokens]

    def _count(self, accepted: bool) -> None:
        self.accepted += accepted
        self.judged += 1
