"""Block verification: the drafted chain is judged as one block, so a good token can make up for a bad one.

Sun et al. 2024 (arXiv 2403.10444), Algorithm 2. The ratios p/q are multiplied along the chain and capped at 1, and the
longest prefix whose coin passes is kept. All coins count: stopping at the first that fails would give another
distribution, and so would a residual without the running product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.foundations.lazy_torch import torch
from specdec_core.record.schema import Verdict

from .base import Decision, Judgement, Rule
from .speculative_sampling import at_nodes

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import Drafts, TokenTree

    from .recorded import RecordedRound


class Block(Rule):
    """Block verification (Sun et al. 2024, Algorithm 2); for chains."""

    name = "block"
    title = "Block verification"
    summary = (
        "Judges the drafted tokens together and keeps the longest prefix that passes: the text follows the target's "
        "distribution exactly, and on average at least as many tokens are accepted as one by one. It gains nothing "
        "with a single drafted token or a deterministic proposal, and it cannot judge trees."
    )
    judging = "longest"
    looks_ahead = True

    @classmethod
    def unsuited(cls, drafts: Drafts) -> str | None:
        if drafts in ("none", "chain"):
            return None
        return (
            "The rule 'block' judges a chain of tokens as a whole, and these settings propose a tree. Choose a "
            "proposer that drafts a chain, or the rule 'speculative-sampling'."
        )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        """See `Rule.judge`.

        Raises:
            ValueError: if `tree` is not a chain.
        """
        if not tree.is_chain:
            raise ValueError("block verification judges chains, got a tree with branches")
        if not len(tree):
            return Judgement([], [], [], p[0], "bonus")
        claims = _claims(*at_nodes(tree, p, q))
        spare = _spare(tree, p, q, claims)
        masses: list[float] = spare.sum(-1).tolist()
        decision = _longest(coins, _thresholds(claims, masses))
        kept = decision.end
        if kept < len(tree) and masses[kept] > 0.0:
            return decision.then(tree, spare[kept] / masses[kept])
        return decision.then(tree, p[kept])

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        claims = _claims(seen.p, seen.q)
        # The masses were not taken from one-hot vectors if a rule with own probabilities at T = 0 judged.
        masses = _fixed_masses(claims, seen.p) if seen.one_hot else seen.row.block_mass
        if masses is None:
            raise seen.lacks("the masses of block verification")
        thresholds = _thresholds(claims, masses)
        met = seen.met or [None] * len(thresholds)
        return _longest(
            seen.coins,
            [threshold if old is None else old for threshold, old in zip(thresholds, met, strict=False)],
        )


def recorded_masses(
    tree: TokenTree, p: Tensor | None, q: Tensor | None, p_at: list[float], q_at: list[float]
) -> list[float]:
    """What the record stores of a chain for `Block.judge_recorded`: S_i of the paper at positions 0 … n − 1.

    Args:
        tree: a chain of n nodes.
        p: as in `Rule.judge`; None where it is one-hot.
        q: likewise; None where the proposal was deterministic.
        p_at: p of every node's token.
        q_at: q of every node's token, 1 for a deterministic one.
    """
    claims = _claims(p_at, q_at)
    if p is None or q is None:
        return _fixed_masses(claims, p_at)
    masses: list[float] = _spare(tree, p, q, claims).sum(-1).tolist()
    return masses


def _claims(p_at: list[float], q_at: list[float]) -> list[float]:
    """p_i of the paper: the ratios multiplied so far, capped at 1; n + 1 numbers."""
    claims = [1.0]
    for mass, drawn in zip(p_at, q_at, strict=True):
        claims.append(min(1.0, claims[-1] * mass / drawn) if drawn > 0.0 else 0.0)
    return claims


def _spare(tree: TokenTree, p: Tensor, q: Tensor | None, claims: list[float]) -> Tensor:
    """max(0, p_i p − q) at positions 0 … n − 1: what is left for a corrected token, (n, V)."""
    claimed = p[:-1] * p.new_tensor(claims[:-1]).unsqueeze(1)
    if q is not None:
        return (claimed - q).clamp_min(0.0)
    drafted = torch.tensor(tree.tokens, device=p.device).unsqueeze(1)
    return claimed.scatter(1, drafted, 0.0)  # a point mass removes all mass at its token


def _fixed_masses(claims: list[float], p_at: list[float]) -> list[float]:
    """The sums of `_spare` where each node is a point mass."""
    return [claim * (1.0 - min(1.0, mass)) for claim, mass in zip(claims, p_at, strict=False)]


def _thresholds(claims: list[float], masses: list[float]) -> list[float]:
    """h_i of the paper at each of n nodes, for p_i = `claims` and S_i = `masses`; the last node's is its claim.

    0/0 means that p equals q, and nothing can fail.
    """
    thresholds = []
    for claim, mass in zip(claims[1:-1], masses[1:], strict=False):
        thresholds.append(mass / (mass + 1.0 - claim) if mass + 1.0 - claim > 0.0 else 1.0)
    return thresholds + claims[1:][-1:]


def _longest(coins: Sequence[float], thresholds: list[float]) -> Decision:
    """Keep all nodes of a chain up to the last one whose coin passes."""
    size = len(thresholds)
    kept = max((node + 1 for node in range(size) if coins[node] < thresholds[node]), default=0)
    verdicts: list[Verdict] = ["accepted" if node < kept else "unreached" for node in range(size)]
    if kept < size:
        verdicts[kept] = "rejected"
    return Decision(list(range(kept)), verdicts, [*thresholds])
