"""Speculative sampling: accept with probability min(1, p/q), correct from the residual. Exact at every temperature.

Leviathan et al. 2023 (Algorithm 1) for one child; SpecInfer's recursive rejection (Miao et al. 2024, Algorithm 2) for
several: after child x drawn from q is rejected, p becomes norm(max(0, p − q)) for its next sibling. q differs per
child: without replacement (Sequoia, Chen et al. 2024) the earlier siblings are missing from it. A deterministic child
is a point mass: it passes with probability p(x), and a rejection removes x from p. Most exact rules judge by this
module's `judge`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.foundations.lazy_torch import torch
from specdec_core.sampling import residual
from specdec_core.tree import TokenTree

from .base import Decision, Judgement, Rule, walk

if TYPE_CHECKING:
    from torch import Tensor

    from .recorded import RecordedRound


class SpeculativeSampling(Rule):
    """Leviathan et al. 2023, Algorithm 1; on trees SpecInfer's recursive rejection."""

    name = "speculative-sampling"
    title = "Speculative sampling"
    summary = (
        "Keeps a proposed token with probability min(1, p/q), else draws from the part of p that q did not cover, "
        "so the text follows the target's distribution exactly. On a chain, no lossless rule that judges token by "
        "token accepts more; it needs the draft's probabilities, and a confident wrong guess still costs a rejection."
    )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return judge(tree, p, q, coins)

    def judge_greedy(self, tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision:
        return judge_greedy(tree, best, coins)

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        return judge_recorded(seen)


def judge(
    tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float], weight: float = 1.0
) -> Judgement:
    """Judge `tree` by recursive rejection; arguments as in `Rule.judge`.

    Below 1, `weight` w replaces p by the mixture w p + (1 − w) q at each child, which is no longer exact. The
    residual is the same, since the mixture less q is w (p − q).
    """
    p_at, q_at = at_nodes(tree, p, q)
    left: Tensor  # what the failed siblings have left of p at their parent

    def reject(child: int) -> None:
        nonlocal left
        left = residual(left, _drafted(q, child, tree.tokens[child], left))

    def ratio(child: int, failed: list[int]) -> float:
        nonlocal left
        if not failed:
            left = p[tree.parents[child] + 1]
            return over(p_at[child], q_at[child])
        reject(failed[-1])
        return over(float(left[tree.tokens[child]]), q_at[child])

    decision = walk(tree, coins, ratio, weight)
    if children := tree.children[decision.end]:
        reject(children[-1])
    else:
        left = p[decision.end]
    return decision.then(tree, left)


def judge_greedy(tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision:
    """`judge` for deterministic proposals where p is one-hot; arguments as in `Rule.judge_greedy`."""
    return walk(tree, coins, lambda child, failed: float(tree.tokens[child] == best[tree.parents[child] + 1]))


def judge_recorded(seen: RecordedRound, weight: float = 1.0, points: bool = False) -> Decision:
    """Judge a recorded round by recursive rejection, as `judge` would.

    Args:
        points: whether the rule ignores q and treats each node as a point mass.
    """

    def ratio(child: int, failed: list[int]) -> float:
        if seen.drawn and not points:
            return seen.recursive[child] if failed else over(seen.p[child], seen.q[child])
        tokens, mass = seen.tree.tokens, seen.p[child]
        tried = {tokens[other]: seen.p[other] for other in failed}
        if tokens[child] in tried or mass == 0.0:
            return 0.0
        return mass / max(mass, 1.0 - math.fsum(tried.values()))

    return seen.walk(ratio, weight)


def thresholds(tree: TokenTree, p: Tensor, q: Tensor) -> list[float]:
    """The threshold at every node of a drawn tree, had all its earlier siblings failed; arguments as in `Rule.judge`.

    Recorded for `judge_recorded`. All families of siblings are judged at once: the second
    children, the third, …
    """
    found = [min(1.0, over(*pair)) for pair in zip(*at_nodes(tree, p, q), strict=True)]
    families = [children for children in tree.children if len(children) > 1]
    left = p[[tree.parents[children[0]] + 1 for children in families]]
    for order in range(1, max(map(len, families), default=0)):
        kept = [place for place, children in enumerate(families) if len(children) > order]
        if len(kept) < len(families):
            families, left = [families[place] for place in kept], left[kept]
        left = (left - q[[children[order - 1] for children in families]]).clamp_min_(0.0)
        nodes = [children[order] for children in families]
        tokens = [tree.tokens[node] for node in nodes]
        left /= left.sum(-1, keepdim=True).clamp_min_(1e-30)  # nothing is left only where no sibling can fail
        values = torch.stack((left[range(len(nodes)), tokens], q[nodes, tokens])).tolist()
        for node, *pair in zip(nodes, *values, strict=True):
            found[node] = min(1.0, over(*pair))
    return found


def over(mass: float, drawn: float) -> float:
    """p/q of a token; a token with q = 0 does not pass."""
    return mass / drawn if drawn > 0.0 else 0.0


def at_nodes(tree: TokenTree, p: Tensor, q: Tensor | None) -> tuple[list[float], list[float]]:
    """p and q of every node's token at its parent, fetched from the device at once; q is 1 where it is a point mass."""
    if not len(tree):
        return [], []
    positions = torch.tensor(tree.parents, device=p.device) + 1
    tokens = torch.tensor(tree.tokens, device=p.device)
    p_at: list[float] = p[positions, tokens].tolist()
    q_at: list[float] = (
        [1.0] * len(tree) if q is None else q.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
    )
    return p_at, q_at


def _drafted(q: Tensor | None, child: int, token: int, like: Tensor) -> Tensor:
    """The distribution the child was drawn from; a point mass where the proposal was deterministic."""
    if q is not None:
        return q[child]
    point = torch.zeros_like(like)
    point[token] = 1.0
    return point
