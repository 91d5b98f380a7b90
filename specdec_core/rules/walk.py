"""The walk of every rule that judges node by node: try the children of a node one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specdec_core.record.schema import Verdict
from specdec_core.tree import TokenTree

from .base import Decision

Ratio = Callable[[int, list[int]], float]
"""p/q of a node whose earlier siblings (in the list) have failed; p is what these left of it."""


def walk(tree: TokenTree, coins: Sequence[float], ratio_of: Ratio, weight: float = 1.0) -> Decision:
    """Descend to the first child that passes, and stop where none does.

    Below 1, `weight` w replaces p by the mixture w p + (1 − w) q at each child.
    """
    verdicts: list[Verdict] = ["unreached"] * len(tree)
    thresholds: list[float | None] = [None] * len(tree)
    path: list[int] = []
    position = 0
    while True:
        failed: list[int] = []
        for child in tree.children[position]:
            ratio = ratio_of(child, failed)
            threshold = min(1.0, 1.0 - weight + weight * ratio)
            thresholds[child] = threshold
            if coins[child] < threshold:
                verdicts[child] = "accepted"
                path.append(child)
                position = child + 1
                break
            verdicts[child] = "rejected"
            failed.append(child)  # the next child is judged by what this one's q left of p
        else:  # none has passed
            return Decision(path, verdicts, thresholds)
