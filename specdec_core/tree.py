"""Token trees: the one shape of every proposal. A chain is a tree without branches; plain decoding uses an empty
one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from specdec_core.foundations.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor


ROOT = -1  # parent of the first proposed tokens: the last committed token


Drafts = Literal["none", "chain", "fixed tree", "independent tree", "distinct tree"]
"""How siblings are chosen: not at all; deterministically; drawn with replacement; drawn without replacement."""


class TokenTree:
    """Proposed tokens and their parents, in topological order (a parent comes before its children).

    Node indices run from 0; `ROOT` (−1) is the last committed token, which the target reads in the same pass.
    Positions number what the target pass returns: position 0 is the root, position i + 1 is node i.

    Args:
        tokens: the proposed token ids.
        parents: for each node the index of its parent, `ROOT` for the first level.

    Raises:
        ValueError: if a parent does not come before its child, or two siblings are proposed out of range.
    """

    def __init__(self, tokens: Sequence[int] = (), parents: Sequence[int] = ()) -> None:
        if len(tokens) != len(parents):
            raise ValueError(
                f"a tree needs one parent per token, got {len(tokens)} tokens and {len(parents)} parents"
            )
        for node, parent in enumerate(parents):
            if not ROOT <= parent < node:
                raise ValueError(f"node {node} has parent {parent}; expected −1 or an earlier node")
        self.tokens = list(tokens)
        self.parents = list(parents)

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> TokenTree:
        """The tree in which each token follows the one before it."""
        return cls(tokens, range(-1, len(tokens) - 1))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def is_chain(self) -> bool:
        """Whether no node has a sibling and each follows the node before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    @cached_property
    def depths(self) -> list[int]:
        """Distance of each node from the root; the first level has depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return depths

    @cached_property
    def children(self) -> list[list[int]]:
        """For each position (0 the root, i + 1 node i) its children in the order proposed."""
        children: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for node, parent in enumerate(self.parents):
            children[parent + 1].append(node)
        return children

    def joined(self, other: TokenTree) -> TokenTree:
        """One tree below the same root: this one's nodes, then those of `other`, renumbered."""
        size = len(self)
        if not len(other):
            return self
        moved = [ROOT if parent == ROOT else parent + size for parent in other.parents]
        return TokenTree([*self.tokens, *other.tokens], [*self.parents, *moved])

    def path(self, node: int) -> list[int]:
        """The nodes from the first level down to `node`."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def visible(self) -> Tensor:
        """Which position may attend to which: bool (n + 1, n + 1), true where the column is the row or its ancestor."""
        size = len(self) + 1
        if self.is_chain:
            return _lower(size)
        seen = np.eye(size, dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            seen[node + 1] |= seen[parent + 1]  # a parent's row is complete before its children's
        return torch.from_numpy(seen)


@lru_cache(maxsize=80)
def _lower(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).tril()
