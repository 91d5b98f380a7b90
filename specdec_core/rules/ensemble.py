"""Ensemble: speculative sampling whose target is a mixture of target and draft. Lossy by a known amount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from .base import Decision, Judgement, Rule
from .speculative_sampling import judge, judge_recorded

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import TokenTree

    from .recorded import RecordedRound


class Ensemble(Rule):
    """DIVERSED (arXiv 2604.07622): verification against v = w p + (1 − w) q instead of p.

    A proposed token passes with probability min(1, v/q) = min(1, 1 − w + w p/q). The residual max(0, v − q) is that of
    speculative sampling, since v − q = w (p − q). So a drafted position follows v, whose total variation distance
    from p is (1 − w) times that of q, while a token after the whole draft is still drawn from p. Among siblings, p is
    what the earlier ones left, and each sibling is judged against the mixture of that with its q; there the
    distance is larger. At temperature 0 a wrong guess passes with probability 1 − w, so the text depends on the seed.
    """

    name = "ensemble"
    title = "Ensemble of both models"
    summary = (
        "Keeps a proposed token with probability min(1, 1 − w + w·p/q), as if the target were a mixture of both "
        "models, so a smaller w accepts more. The text shifts towards the draft's: on a chain, each drafted "
        "position is off by 1 − w times the distance between the two, in a tree by more."
    )
    lossless = False

    class Options(Rule.Options):
        weight: float = Field(
            0.5,
            gt=0.0,
            le=1.0,
            description="The target's weight w in the mixture that judges; 1 is exact speculative sampling, and near 0 "
            "nearly every guess stays.",
        )

    options: Options

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return judge(tree, p, q, coins, self.options.weight)

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        return judge_recorded(seen, self.options.weight)
