"""The exact distribution of a drafted chain that stops where the draft is unsure, and what such a threshold costs.

The draft stops after a token to which it gave less than `stop`, as the length policy `confidence` does. That decides
how much is proposed, not what is kept, so a lossless rule stays lossless. Leaving out the doubtful token itself would
be different (`drops`): it has been drawn, and dropping it because of its value changes its distribution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.rules.base import Judgement, Rule
from specdec_core.tree import TokenTree

from .distribution import departure
from .enumeration import Context, NextProbs

if TYPE_CHECKING:
    from torch import Tensor


Sent = Callable[[Context], int]  # a drawn block → how many of its tokens are proposed


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """Exact means over all outcomes of a round.

    Attributes:
        tokens: committed per target pass, the corrected or bonus one included.
        drafted: proposed.
        judged: accepted or rejected.
        accepted: of these.
        distance: total variation between what is written from here on with one such round, and without.
        first: the distribution of the first token that the round writes.
    """

    tokens: float
    drafted: float
    judged: float
    accepted: float
    distance: float
    first: tuple[float, ...]

    @property
    def acceptance(self) -> float:
        """Accepted over judged; 1 where nothing is judged."""
        return self.accepted / self.judged if self.judged else 1.0

    def speedup(self, cost: float) -> float:
        """Theorem 3.8 of `theory` with the mean number of drafted tokens for γ: τ / (1 + c · drafted). Modelled."""
        return self.tokens / (1.0 + cost * self.drafted)


def stopped(
    rule: Rule,
    gamma: int,
    p: NextProbs,
    q: NextProbs,
    stop: float = 0.0,
    *,
    drops: bool = False,
    wanted: NextProbs | None = None,
) -> StoppedEarly:
    """One round of up to `gamma` drafted tokens, enumerated over all outcomes.

    Args:
        rule: one that judges token by token.
        gamma: the longest draft.
        p, q: the target's and the draft's distributions.
        stop: drafting stops after a token whose draft probability is smaller; 0 never stops.
        drops: leave that token out as well, the mistake that makes it lossy.
        wanted: what the text is compared with; `p` if left out. Other than `p`, where that is a target cut off.

    Raises:
        SettingsError: if the rule judges a draft as a whole.
    """

    def sent(chain: Context) -> int:
        doubtful = (at for at, token in enumerate(chain) if q(chain[:at])[token] < stop)
        return next((at if drops else at + 1 for at in doubtful), gamma)

    return cut(rule, gamma, p, q, sent, wanted)


def cut(
    rule: Rule, gamma: int, p: NextProbs, q: NextProbs, sent: Sent, wanted: NextProbs | None = None
) -> StoppedEarly:
    """One round of which only the first `sent(block)` of `gamma` drawn tokens are proposed, over all outcomes.

    Lossless only if whether a token is sent does not depend on it or on those after it: the enumeration shows.

    Raises:
        SettingsError: if the rule judges a draft as a whole.
    """
    if rule.judging != "each":
        raise SettingsError(
            f"The rule '{rule.name}' judges a draft as a whole; choose one that judges each token."
        )
    proposals: dict[Context, float] = defaultdict(float)
    for block, chance in blocks(gamma, q):
        proposals[block[: sent(block)]] += chance
    written: dict[Context, float] = defaultdict(float)
    tokens = drafted = judged = accepted = 0.0
    for chain, chance in proposals.items():
        drafted += chance * len(chain)
        tree = TokenTree.chain(chain)
        rows = torch.tensor([list(p(chain[:end])) for end in range(len(chain) + 1)], dtype=torch.float64)
        drawn = torch.tensor([list(q(chain[:end])) for end in range(len(chain))], dtype=torch.float64)
        for judgement, share in _judgements(rule, tree, rows, drawn):
            kept = chain[: len(judgement.path)]
            tokens += chance * share * (len(kept) + 1)
            accepted += chance * share * len(kept)
            judged += chance * share * sum(verdict != "unreached" for verdict in judgement.verdicts)
            for token, mass in enumerate(judgement.final.tolist()):
                if mass > 0.0:
                    written[(*kept, token)] += chance * share * mass
    first = [0.0] * len(p(()))
    for text, mass in written.items():
        first[text[0]] += mass
    return StoppedEarly(tokens, drafted, judged, accepted, departure(written, wanted or p), tuple(first))


def blocks(gamma: int, q: NextProbs) -> Iterator[tuple[Context, float]]:
    """All blocks of `gamma` tokens that can be drawn, with their probabilities."""
    found: list[tuple[Context, float]] = [((), 1.0)]
    for _ in range(gamma):
        found = [
            ((*block, token), chance * mass)
            for block, chance in found
            for token, mass in enumerate(q(block))
            if mass > 0.0
        ]
    yield from found


def _judgements(rule: Rule, tree: TokenTree, p: Tensor, q: Tensor) -> Iterator[tuple[Judgement, float]]:
    """All outcomes of the coins: so many pass, and the next does not."""
    reached = 1.0
    for passed in range(len(tree) + 1):
        judgement = rule.judge(tree, p, q, [0.0] * passed + [1.0] * (len(tree) - passed))
        if judgement.limits is not None:
            raise SettingsError(
                f"The rule '{rule.name}' keeps tokens by those after them; choose another one."
            )
        threshold = judgement.thresholds[passed] or 0.0 if passed < len(tree) else 0.0
        if threshold < 1.0 and reached > 0.0:
            yield judgement, reached * (1.0 - threshold)
        reached *= threshold
