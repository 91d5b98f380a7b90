"""Block verification: the drafted chain is judged as one block, so a bad token can be made up for by a good one.

Sun et al. 2024 (arXiv 2403.10444), Algorithm 2. The ratios p/q are multiplied along the chain and capped at 1, and the
longest prefix whose coin passes is kept. Every node's coin counts: to stop at the first that fails would be another
law, and so would a residual that leaves out the running product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec_core.record.schema import Verdict
from specdec_core.tree import TokenTree

from .base import Judgement, Rule
from .recursive_rejection import at_nodes

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Drafts


class Block(Rule):
    """Block verification (Sun et al. 2024, Algorithm 2); for chains."""

    name = "block"
    title = "Block verification"
    summary = (
        "Judges the drafted tokens together and keeps the longest prefix that passes, so the text follows the target's "
        "law exactly and on average at least as many are accepted as by judging one by one. It gains nothing over that "
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
        size = len(tree)
        if not size:
            return Judgement([], [], [], p[0], "bonus")
        claims = [1.0]  # p_i of the paper: the ratios multiplied so far, capped at 1
        p_at, q_at = at_nodes(tree, p, q)
        for mass, drawn in zip(p_at, q_at, strict=True):
            claims.append(min(1.0, claims[-1] * mass / drawn) if drawn > 0.0 else 0.0)
        spare = _spare(tree, p, q, claims)
        masses: list[float] = spare.sum(-1).tolist()
        thresholds = [_passing(*pair) for pair in zip(masses[1:], claims[1:], strict=False)] + claims[-1:]
        kept = max((node + 1 for node in range(size) if coins[node] < thresholds[node]), default=0)
        path = list(range(kept))
        verdicts: list[Verdict] = ["unreached"] * size
        verdicts[:kept] = ["accepted"] * kept
        if kept == size:
            return Judgement(path, verdicts, [*thresholds], p[size], "bonus")
        verdicts[kept] = "rejected"
        final = spare[kept] / masses[kept] if masses[kept] > 0.0 else p[kept]
        return Judgement(path, verdicts, [*thresholds], final, "corrected")


def _spare(tree: TokenTree, p: Tensor, q: Tensor | None, claims: list[float]) -> Tensor:
    """max(0, p_i p − q) at positions 0 … n − 1: what is left for a corrected token, (n, V)."""
    claimed = p[:-1] * p.new_tensor(claims[:-1]).unsqueeze(1)
    if q is not None:
        return (claimed - q).clamp_min(0.0)
    drafted = torch.tensor(tree.tokens, device=p.device).unsqueeze(1)
    return claimed.scatter(1, drafted, 0.0)  # a point mass takes all there is at its token


def _passing(mass: float, claim: float) -> float:
    """h_i of the paper, for S_i = `mass` and p_i = `claim`; 0/0 means that p equals q, where nothing can fail."""
    return mass / (mass + 1.0 - claim) if mass + 1.0 - claim > 0.0 else 1.0
