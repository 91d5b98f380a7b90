"""The walk that all exact rules share: try the children of a node one by one, subtracting what has failed.

Leviathan et al. 2023 (Algorithm 1) for one child; SpecInfer (Miao et al. 2024, Algorithm 2) for several: after child
x drawn from q is rejected, p becomes norm(max(0, p − q)) for its next sibling. q is each child's own: without
replacement (Sequoia, Chen et al. 2024) the earlier siblings are missing from it. A deterministic child is a point
mass: it passes with probability p(x), and a rejection removes x from p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.record.schema import Source, Verdict
from specdec_core.sampling import residual
from specdec_core.tree import ROOT, TokenTree

from .base import Judgement


def walk(
    tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float], weight: float = 1.0
) -> Judgement:
    """Judge `tree` by recursive rejection; arguments as in `Rule.judge`.

    Below 1, `weight` w puts the mixture w p + (1 − w) q in p's place at every child, which is no longer exact. The
    residual is the same, since the mixture less q is w (p − q).
    """
    verdicts: list[Verdict] = ["unreached"] * len(tree)
    thresholds: list[float | None] = [None] * len(tree)
    path: list[int] = []
    if not len(tree):
        return Judgement(path, verdicts, thresholds, p[0], "bonus")
    p_at, q_at = at_nodes(tree, p, q)
    position = 0
    while True:
        current = p[position]
        accepted = ROOT
        for order, child in enumerate(tree.children[position]):
            token = tree.tokens[child]
            mass = p_at[child] if order == 0 else float(current[token])
            ratio = mass / q_at[child] if q_at[child] > 0.0 else 0.0
            threshold = min(1.0, 1.0 - weight + weight * ratio)
            thresholds[child] = threshold
            if coins[child] < threshold:
                verdicts[child] = "accepted"
                accepted = child
                break
            verdicts[child] = "rejected"
            current = residual(current, _drafted(q, child, token, current))
        if accepted == ROOT:
            source: Source = "corrected" if tree.children[position] else "bonus"
            return Judgement(path, verdicts, thresholds, current, source)
        path.append(accepted)
        position = accepted + 1


def at_nodes(tree: TokenTree, p: Tensor, q: Tensor | None) -> tuple[list[float], list[float]]:
    """p and q of every node's token at its parent, fetched from the device at once."""
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
