"""Speculative sampling: accept with probability min(1, p/q), correct from the residual. Exact at every temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base import Decision, Judgement, Rule
from .recursive_rejection import judge, judge_recorded

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import TokenTree

    from .recorded import Recorded


class SpeculativeSampling(Rule):
    """Leviathan et al. 2023, Algorithm 1; on trees the recursive rejection of SpecInfer."""

    name = "speculative-sampling"
    title = "Speculative sampling"
    summary = (
        "Keeps a proposed token with probability min(1, p/q), else draws from the part of p that q did not cover, "
        "so the text follows the target's distribution exactly. On a chain, no exact rule that judges token by token "
        "accepts more; it needs the draft's probabilities, and a confident wrong guess still costs a rejection."
    )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return judge(tree, p, q, coins)

    def judge_recorded(self, seen: Recorded) -> Decision:
        return judge_recorded(seen)
