"""The best tree of guesses that were all made in one pass, without a further one (DDTree's, best first).

Slot k has a distribution that holds below every node of level k, so a path's probability is a product of what is known
already. A node is taken from a heap by that product, its own children and its next sibling are put there: the first n
taken are the n most likely ones, and every parent is among them. An inner head changes a slot's distribution by the
token above; a node's children are then computed when it is taken, as they are the only ones that can follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp
from typing import Any

from specdec_core.tree import ROOT


@dataclass(slots=True)
class Ranked:
    """The tokens that may follow one node, the likeliest first.

    Attributes:
        tokens: their ids.
        logs: log-probabilities.
        row: of the record's logits.
        memory: what the children's own children need to know, of an inner head.
    """

    tokens: list[int]
    logs: list[float]
    row: int
    memory: Any = None


@dataclass(slots=True)
class MarginalTree:
    """The nodes in falling order of `values`, parents before children.

    Attributes:
        tokens, parents: of each node.
        values: products of probabilities down the path.
        rows: for the root and each node the row of logits that guesses its children, −1 where there is none.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def by_level(self, count: int) -> tuple[list[int], list[int], list[int]]:
        """Tokens, parents and rows of the best `count` nodes, level by level, siblings in falling order."""
        depths: list[int] = []
        for parent in self.parents[:count]:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        order = sorted(range(count), key=lambda node: depths[node])
        number = {ROOT: ROOT} | {node: place for place, node in enumerate(order)}
        tokens, parents = (
            [self.tokens[node] for node in order],
            [number[self.parents[node]] for node in order],
        )
        kept = set(self.parents[:count])
        rows = [self.rows[node + 1] if node in kept else -1 for node in order]
        return tokens, parents, [self.rows[0], *rows]


def grown(most: int, levels: int, after: Callable[[int, int, Any], Ranked]) -> MarginalTree:
    """The `most` likely nodes on at most `levels` levels.

    Args:
        after: of a level from 0, the token above and the memory of its row what may follow; called once for the root
            with the token −1, then for each node that is taken and is not on the last level.
    """
    tree = MarginalTree()
    heap: list[tuple[float, int, int, int, int, Ranked]] = []
    count = 0

    def offer(parent: int, level: int, above: float, rank: int, found: Ranked) -> None:
        nonlocal count
        if rank < len(found.tokens) and found.logs[rank] > -float("inf"):
            heappush(heap, (-(above + found.logs[rank]), count, parent, level, rank, found))
            count += 1

    first = after(0, -1, None)
    tree.rows.append(first.row)
    offer(ROOT, 0, 0.0, 0, first)
    while heap and len(tree.tokens) < most:
        negative, _, parent, level, rank, found = heappop(heap)
        node, token = len(tree.tokens), found.tokens[rank]
        tree.tokens.append(token)
        tree.parents.append(parent)
        tree.values.append(exp(-negative))
        offer(parent, level, -negative - found.logs[rank], rank + 1, found)
        below = after(level + 1, token, found.memory) if level + 1 < levels and node + 1 < most else None
        tree.rows.append(-1 if below is None else below.row)
        if below is not None:
            offer(node, level + 1, -negative, 0, below)
    return tree
