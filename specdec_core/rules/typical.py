"""Typical acceptance: a proposed token stays if the target finds it likely enough. Lossy, and without any coin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.record.schema import Verdict
from specdec_core.tree import ROOT, TokenTree

from .base import Decision, Judgement, Rule
from .speculative_sampling import at_nodes

if TYPE_CHECKING:
    from torch import Tensor

    from .recorded import RecordedRound


class Typical(Rule):
    """Medusa's rule (Cai et al. 2024, section 2.3.1): x passes if p(x) > min(ε, δ exp(−H(p))).

    The entropy H lowers the threshold where the target is unsure. Of all paths whose nodes pass, the longest is
    taken; of equally long ones the most likely under p, then the one that ends first in the tree. The token after it
    is drawn from p unchanged. Passing nodes off the path keep their threshold of 1 but count as unreached. At
    temperature 0 the threshold applies to the target's own probabilities (temperature 1), so a run at 0 is not the
    limit of runs near it.
    """

    name = "typical"
    title = "Typical acceptance"
    summary = (
        "Keeps every proposed token whose target probability is above a threshold that falls as the target gets less "
        "certain, and follows the longest path of such tokens. It needs no random numbers and accepts a lot, but the "
        "text no longer follows the target's distribution: likely proposals are written more often than by the target."
    )
    lossless = False
    own_probabilities = True

    class Options(Rule.Options):
        epsilon: float = Field(
            0.09,
            gt=0.0,
            le=1.0,
            description="The highest the threshold can be: a token above this probability always stays.",
        )
        delta: float = Field(
            0.3,
            gt=0.0,
            le=1.0,
            description="How the threshold falls with the target's entropy H: it is at most this times exp(−H).",
        )

    options: Options

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        if not len(tree):
            return Judgement([], [], [], p[0], "bonus")
        p_at, _ = at_nodes(tree, p, None)
        entropy: list[float] = torch.special.entr(p).sum(-1).tolist()
        decision = self._decide(tree, p_at, [entropy[parent + 1] for parent in tree.parents])
        return decision.then(tree, p[decision.end])

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        return self._decide(seen.tree, seen.p, seen.entropy)

    def _decide(self, tree: TokenTree, p_at: list[float], entropy: list[float]) -> Decision:
        """The longest path above the threshold; per node its token's probability and the entropy at its parent."""
        thresholds: list[float | None] = [None] * len(tree)
        scores: dict[int, float] = {ROOT: 0.0}  # log-likelihood of the path to every node that passes
        for node, parent in enumerate(tree.parents):
            if parent in scores:
                threshold = min(self.options.delta * math.exp(-entropy[node]), self.options.epsilon)
                passes = p_at[node] > threshold
                thresholds[node] = float(passes)
                if passes:
                    scores[node] = scores[parent] + math.log(p_at[node])
        depths = {ROOT: 0} | dict(enumerate(tree.depths))
        path = tree.path(max(scores, key=lambda node: (depths[node], scores[node], -node)))
        verdicts: list[Verdict] = ["unreached"] * len(tree)
        for node, parent in enumerate(tree.parents):
            if node in path:
                verdicts[node] = "accepted"
            elif thresholds[node] == 0.0 and parent in (ROOT, *path):
                verdicts[node] = "rejected"
        return Decision(path, verdicts, thresholds)
