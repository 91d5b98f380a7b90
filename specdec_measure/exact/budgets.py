"""How much of a drawn block is verified, and by what that may be decided: four policies, enumerated.

All four send the number of guesses that promises most tokens per time: the sum of the survivals plus one, over the time
of the pass. A guess's survival is the product of the confidences down to it. They differ in what they look at:

- `prefix-only`: decides about a guess before it is drawn, by the confidences known until then; for further ones it
  takes their mean.
- `stale`: sends what was best for an earlier block.
- `drawn-token`: scores each guess by the draft's probability of the very token that was drawn.
- `live`: knows the confidences of the whole block, each of which depends on the tokens before it, and then decides
  about all of them, the first ones included.

The first two write the target's distribution. The others do not, though no confidence of `live` looks at its own token,
and though its confidences are right: they are the exact acceptance probabilities Σ min(p, q).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Literal

from specdec_core.rules.base import Rule

from .early_stop import Sent, StoppedEarly, blocks, cut
from .enumeration import Context, NextProbs

Policy = Literal["prefix-only", "stale", "drawn-token", "live"]
POLICIES: tuple[Policy, ...] = ("prefix-only", "stale", "drawn-token", "live")


def best_budget(survivals: Sequence[float], times: Sequence[float]) -> int:
    """How many guesses promise most tokens per time; `times`: of rounds that send 0, 1, 2, … guesses."""
    tokens = accumulate(survivals, initial=1.0)
    speeds = [expected / time for expected, time in zip(tokens, times, strict=False)]
    return speeds.index(max(speeds))


def budgeted(policy: Policy, rule: Rule, p: NextProbs, q: NextProbs, times: Sequence[float]) -> StoppedEarly:
    """One round of the policy, over all outcomes; `stale` over all blocks that may have been drawn before it, too.

    Args:
        rule: one that judges token by token.
        p, q: the target's and the draft's distributions.
        times: of a round that sends 0, 1, 2, … guesses; one more than the block is long.

    Raises:
        SettingsError: if the rule judges a draft as a whole.
    """
    gamma = len(times) - 1
    if policy != "stale":
        return cut(rule, gamma, p, q, sender(policy, p, q, times))
    live = sender("live", p, q, times)
    rounds = [
        (chance, cut(rule, gamma, p, q, _always(live(earlier)))) for earlier, chance in blocks(gamma, q)
    ]
    return _mixed(rounds)


def sender(policy: Policy, p: NextProbs, q: NextProbs, times: Sequence[float]) -> Sent:
    """How many of a drawn block's guesses the policy sends; for `stale` what the likeliest earlier block wanted."""
    gamma = len(times) - 1

    def confidence(prefix: Context) -> float:
        return sum(map(min, p(prefix), q(prefix)))

    def live(block: Context) -> int:
        chances = (confidence(block[:at]) for at in range(gamma))
        return best_budget(list(accumulate(chances, mul)), times)

    def drawn_token(block: Context) -> int:
        chances = (q(block[:at])[token] for at, token in enumerate(block))
        return best_budget(list(accumulate(chances, mul)), times)

    def prefix_only(block: Context) -> int:
        for drawn in range(gamma):
            known = list(accumulate((confidence(block[:at]) for at in range(drawn)), mul, initial=1.0))
            further = _hoped(block[:drawn], gamma - drawn, confidence, q)
            survivals = [*known[1:], *(known[-1] * each for each in further)]
            if best_budget(survivals, times) <= drawn:
                return drawn
        return gamma

    if policy == "stale":
        likeliest, _ = max(blocks(gamma, q), key=lambda found: found[1])
        return _always(live(likeliest))
    return {"live": live, "drawn-token": drawn_token, "prefix-only": prefix_only}[policy]


def _hoped(prefix: Context, count: int, confidence: Callable[[Context], float], q: NextProbs) -> list[float]:
    """The mean survival of each of the next `count` guesses after `prefix`, none of which is drawn yet."""
    if not count:
        return []
    now, further = confidence(prefix), [0.0] * (count - 1)
    for token, chance in enumerate(q(prefix)):
        for at, value in enumerate(_hoped((*prefix, token), count - 1, confidence, q)):
            further[at] += chance * value
    return [now, *(now * value for value in further)]


def _always(budget: int) -> Sent:
    return lambda _: budget


def _mixed(rounds: Sequence[tuple[float, StoppedEarly]]) -> StoppedEarly:
    """The mean of rounds that differ in what an earlier round decided; given that, each is exact or not by itself."""

    def mean(name: str) -> float:
        return sum(chance * float(getattr(found, name)) for chance, found in rounds)

    width = range(len(rounds[0][1].first))
    first = tuple(sum(chance * found.first[token] for chance, found in rounds) for token in width)
    return StoppedEarly(
        mean("tokens"), mean("drafted"), mean("judged"), mean("accepted"), mean("distance"), first
    )
