"""k-SEQ: all siblings are judged against the same p, scaled down so that together they do not take too much of it.

SpecTr (Sun et al. 2023, arXiv 2310.15141), Algorithm 3. Sibling i, drawn from q_i, passes with probability
min(1, p / (ρ q_i)). With β_i = Σ min(q_i, p/ρ) it is reached with probability r_i = Π (1 − β_j) over its earlier
siblings, so token x is accepted as sibling i with probability r_i min(q_i(x), p(x)/ρ), and what is left of p,
p − Σ r_i min(q_i, p/ρ), goes to the corrected token. That is exact at every ρ that leaves nothing negative, for which
it suffices that Σ r_i ≤ ρ over the siblings that can be x, at each x. The smaller ρ, the more passes; for k equal
q's the smallest is the paper's, 1 − (1 − β)^k = ρ β. Since ρ depends on every sibling's q, no q may depend on the
token of another sibling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING

from specdec_core.foundations.lazy_torch import torch

from .base import Decision, Judgement, Rule, walk
from .speculative_sampling import judge_greedy, over

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import Drafts, TokenTree

    from .recorded import RecordedRound

PRECISION = 1e-9  # of ρ; above the smallest, ρ costs acceptance but never exactness


class KSeq(Rule):
    """k sequential selection (SpecTr, Algorithm 3), node by node down the tree."""

    name = "kseq"
    title = "k-SEQ"
    summary = (
        "Judges the siblings of a tree one after another against one scaled-down copy of the target's distribution; "
        "the text follows the target's distribution exactly. It suits several siblings drawn from the same q; on a "
        "chain it is speculative sampling, and it accepts fewer fixed siblings than that rule."
    )

    @classmethod
    def unsuited(cls, drafts: Drafts) -> str | None:
        if drafts != "distinct tree":
            return None
        return (
            "The rule 'kseq' needs siblings that are drawn independently of each other, and these settings draw them "
            "without replacement. Choose the rule 'speculative-sampling', or siblings drawn with replacement."
        )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        passing: dict[int, float] = {}
        shares: Tensor | None = None

        def ratio(child: int, failed: list[int]) -> float:
            nonlocal shares
            if not failed:
                here, siblings = p[tree.parents[child] + 1], tree.children[tree.parents[child] + 1]
                tokens = torch.tensor([[tree.tokens[other]] for other in siblings], device=p.device)
                drawn = _points(tokens, here) if q is None else q[siblings]
                shares = torch.minimum(drawn, here / _scale(here, drawn))
                ratios = (shares.gather(1, tokens) / drawn.gather(1, tokens)).squeeze(1).nan_to_num(0.0)
                passing.update(zip(siblings, ratios.tolist(), strict=True))
            return passing[child]

        decision = walk(tree, coins, ratio)
        final = p[decision.end]
        if shares is not None and tree.children[decision.end]:
            left = (final - p.new_tensor(_reach(shares.sum(-1).tolist())) @ shares).clamp_min(0.0)
            mass = left.sum()
            final = left / mass if float(mass) > 0.0 else final
        return decision.then(tree, final)

    def judge_greedy(self, tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision:
        return judge_greedy(tree, best, coins)  # ρ is 1: no two different point masses share a token

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        """At nodes without siblings, or whose siblings are different point masses, ρ is 1; else not in the trace."""

        def ratio(child: int, failed: list[int]) -> float:
            siblings = seen.tree.children[seen.tree.parents[child] + 1]
            different = len({seen.tree.tokens[other] for other in siblings}) == len(siblings)
            if not different or (seen.drawn and len(siblings) > 1):
                raise seen.lacks("the scale ρ at nodes with several drawn children")
            return over(seen.p[child], seen.q[child])

        return seen.walk(ratio)


def _points(tokens: Tensor, like: Tensor) -> Tensor:
    """Point masses at `tokens` (k, 1), as rows (k, V)."""
    return like.new_zeros(len(tokens), len(like)).scatter_(1, tokens, 1.0)


def _reach(betas: list[float]) -> list[float]:
    """r_i: the probability that sibling i is judged, given β_i, the probability that it passes when it is."""
    reached = [1.0]
    for beta in betas:
        reached.append(reached[-1] * max(0.0, 1.0 - beta))
    return reached[:-1]


def _scale(p: Tensor, q: Tensor) -> float:
    """A valid ρ for p (V,) and the siblings' q (k, V), from 1 to k; for equal q's the smallest, erring upwards.

    The requirement on ρ, Σ r_i, never falls as ρ grows. So if ρ is too small, so is anything below its requirement; and
    if ρ is valid, so is its requirement. Both ends of the bracket move to it, besides bisection.
    """
    count = len(q)
    if count == 1:
        return 1.0
    rows = q[:1] if bool((q == q[0]).all()) else q  # equal siblings overlap with p alike
    possible = (q > 0.0) & (p > 0.0)
    # Which siblings can be the same token. A token shared by all needs the most, and usually there is one.
    together: set[tuple[bool, ...]] = {(True,) * count}
    if not bool(possible.all(0).any()):
        together = set(map(tuple, possible[:, possible.any(0)].T.tolist()))

    def needed(rho: float) -> float:
        betas = torch.minimum(rows, p / rho).sum(-1).tolist()
        reached = _reach(betas * (count // len(rows)))
        return max((sum(compress(reached, siblings)) for siblings in together), default=0.0)

    low, high = 1.0, float(count)
    middle = low
    while True:
        need = needed(middle)
        if need > middle:
            low = need
        else:
            high = max(need, 1.0)
        if high - low <= PRECISION:
            return high
        middle = 0.5 * (low + high)
