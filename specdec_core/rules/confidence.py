"""Confidence: proposed tokens stay while somebody is sure enough of them. Three readings of one idea, all lossy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from specdec_core.record.schema import Verdict
from specdec_core.tree import TokenTree

from .base import Judgement, Rule
from .recursive_rejection import at_nodes


class Confidence(Rule):
    """A threshold on a probability. Which one is the `reading`:

    - `target`: the target's probability of the proposed token itself, node by node; the first child at or above the
      threshold is followed.
    - `mean-of-largest`: the mean over the drafted positions of the target's largest probability, whatever was drafted
      there. At or above the threshold all drafted tokens stay, else none. A rule of tutorials: it asks how sure the
      target is, not whether it agrees, so it can keep a token that the target rules out.
    - `draft`: the mean of the draft's own probabilities of its tokens, all or none in the same way. The target has no
      say. A deterministic proposal counts as sure (1): above temperature 0 any, at 0 those without a model behind them.

    At temperature 0 these are the models' own probabilities (temperature 1), as near 0 all would be 0 or 1; so a run at
    0 is no limit of runs near it. All or none means, in a tree, the path of first children. The next token is drawn
    from p as it stands.
    """

    name = "confidence"
    title = "Confidence threshold"
    summary = (
        "Keeps proposed tokens while a model is sure enough, either the target of each token or one of the two models "
        "on average over the draft. It draws no coin and is easy to explain, but the text no longer follows the "
        "target's law, and a threshold on the average can keep tokens that the target rules out."
    )
    lossless = False
    looks_ahead = True
    own_probabilities = True

    class Options(Rule.Options):
        threshold: float = Field(
            0.3, ge=0.0, le=1.0, description="The least probability at which proposed tokens stay."
        )
        reading: Literal["target", "mean-of-largest", "draft"] = Field(
            "target",
            description="Whose confidence counts: 'target' is the target's probability of each proposed token; "
            "'mean-of-largest' the target's largest probability, averaged over the draft; 'draft' the draft's own, "
            "averaged. The averages keep all or nothing.",
        )

    options: Options

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        if not len(tree):
            return Judgement([], [], [], p[0], "bonus")
        verdicts: list[Verdict] = ["unreached"] * len(tree)
        thresholds: list[float | None] = [None] * len(tree)
        p_at, q_at = at_nodes(tree, p, q)
        if self.options.reading == "target":
            path = self._walk(tree, p_at, verdicts, thresholds)
        else:
            path = _first_path(tree)
            values = q_at if self.options.reading == "draft" else _largest(tree, p)
            sure = sum(values[node] for node in path) / len(path) >= self.options.threshold
            for node in path:
                thresholds[node] = 1.0 if sure else 0.0
                verdicts[node] = "accepted" if sure else "unreached"
            if not sure:
                verdicts[path[0]] = "rejected"
                path = []
        end = path[-1] + 1 if path else 0
        return Judgement(path, verdicts, thresholds, p[end], "corrected" if tree.children[end] else "bonus")

    def _walk(
        self, tree: TokenTree, p_at: list[float], verdicts: list[Verdict], thresholds: list[float | None]
    ) -> list[int]:
        """Follow the first child that is likely enough, as deep as there is one; fills verdicts and thresholds."""
        path: list[int] = []
        position = 0
        while True:
            for child in tree.children[position]:
                passes = p_at[child] >= self.options.threshold
                thresholds[child] = 1.0 if passes else 0.0
                verdicts[child] = "accepted" if passes else "rejected"
                if passes:
                    path.append(child)
                    position = child + 1
                    break
            else:
                return path


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
    largest: list[float] = p.amax(-1).tolist()
    return [largest[parent + 1] for parent in tree.parents]
