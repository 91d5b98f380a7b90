"""Confidence: proposed tokens stay while a model is confident enough. Three variants, all lossy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from specdec_core.record.schema import Verdict

from .base import Decision, Judgement, Ratio, Rule, walk
from .speculative_sampling import at_nodes

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import TokenTree

    from .recorded import RecordedRound


class Confidence(Rule):
    """A threshold on a probability, chosen by `reading`:

    - `target`: the target's probability of the proposed token itself, node by node; the first child at or above the
      threshold is followed.
    - `mean-of-largest`: the mean over the drafted positions of the target's largest probability, whatever was drafted
      there. At or above the threshold all drafted tokens stay, else none. A rule found in tutorials: it checks how
      confident the target is, not whether it agrees, so it can keep a token that the target rules out.
    - `draft`: the mean of the draft's own probabilities of its tokens, all or none in the same way. The target is not
      consulted. A deterministic proposal counts as 1: above temperature 0 any, at 0 those made without a model.

    At temperature 0 these are the models' own probabilities (temperature 1), as near 0 all would be 0 or 1; so a run at
    0 is not the limit of runs near it. In a tree, all or none refers to the path of first children. The next token is
    drawn from p unchanged.
    """

    name = "confidence"
    title = "Confidence threshold"
    summary = (
        "Keeps proposed tokens while a model is confident enough: the target in each token, or one of the two models "
        "on average over the draft. It needs no random numbers and is easy to explain, but the text no longer follows "
        "the target's distribution, and a threshold on the average can keep tokens that the target rules out."
    )
    lossless = False
    looks_ahead = True
    own_probabilities = True

    class Options(Rule.Options):
        threshold: float = Field(
            0.3, ge=0.0, le=1.0, description="The lowest probability at which proposed tokens stay."
        )
        reading: Literal["target", "mean-of-largest", "draft"] = Field(
            "target",
            description="Whose confidence counts: 'target' is the target's probability of each proposed token; "
            "'mean-of-largest' the target's largest probability, averaged over the draft; 'draft' the draft's own, "
            "averaged. The averages keep all or nothing.",
        )

    options: Options

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        if self.options.reading == "mean-of-largest":
            values = _largest(tree, p)
        else:
            p_at, q_at = at_nodes(tree, p, q)
            values = p_at if self.options.reading == "target" else q_at
        decision = self._decide(tree, values, partial(walk, tree, [0.0] * len(tree)))
        return decision.then(tree, p[decision.end])

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        if self.options.reading == "mean-of-largest":
            values = seen.p_max
        else:
            values = seen.p if self.options.reading == "target" else seen.q
        return self._decide(seen.tree, values, seen.walk)

    def _decide(self, tree: TokenTree, values: list[float], walk: Callable[[Ratio], Decision]) -> Decision:
        """Follow nodes at or above the threshold; `values` are the probabilities of the reading, one per node."""
        if self.options.reading == "target":
            return walk(lambda child, failed: float(values[child] >= self.options.threshold))
        path = _first_path(tree)
        sure = bool(path) and sum(values[node] for node in path) / len(path) >= self.options.threshold
        verdicts: list[Verdict] = ["unreached"] * len(tree)
        thresholds: list[float | None] = [None] * len(tree)
        for node in path:
            thresholds[node] = float(sure)
            verdicts[node] = "accepted" if sure else "unreached"
        if path and not sure:
            verdicts[path[0]] = "rejected"
        return Decision(path if sure else [], verdicts, thresholds)


def _first_path(tree: TokenTree) -> list[int]:
    """The path of first children, from the first level down to a leaf."""
    path: list[int] = []
    position = 0
    while tree.children[position]:
        path.append(tree.children[position][0])
        position = path[-1] + 1
    return path


def _largest(tree: TokenTree, p: Tensor) -> list[float]:
    """Per node the largest probability the target gives to any token at the node's parent."""
    if not len(tree):
        return []
    largest: list[float] = p.amax(-1).tolist()
    return [largest[parent + 1] for parent in tree.parents]
