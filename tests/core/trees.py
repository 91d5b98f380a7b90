"""Proposers of trees that the product's own never grow, for tests: the loop and the rules take any."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import torch

from specdec_core.proposers import Context, Outcome, Proposal, Proposer, Resources, TreeShape
from specdec_core.sampling import draw
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree


def random_tree(size: int, vocabulary: int, rng: random.Random) -> TokenTree:
    """Any topological order of any shape: each node hangs below a random earlier one."""
    parents = [rng.randrange(-1, node) for node in range(size)]
    return TokenTree([rng.randrange(vocabulary) for _ in range(size)], parents)


class Oracle(Proposer):
    """Hides a piece of the true continuation among junk branches, in an order that keeps its rows apart.

    So the accepted path is never the first rows of the pass, its length differs from round to round, some rounds
    accept nothing, and some end at an inner node whose children are all wrong (corrected) or at a leaf (bonus).
    """

    name = "test-oracle"
    title = summary = "test"
    truth: ClassVar[list[int]] = []  # the whole text, prompt included
    least: ClassVar[int] = 4  # nodes, filled up with junk

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", 24 + cls.least)

    def propose(self, context: Context) -> Proposal:
        rng = random.Random(1000 * context.round + len(context.tokens))
        start = len(context.tokens)
        right = self.truth[start : start + min(rng.randrange(6), max(context.limit, 0))]
        tokens: list[int] = []
        parents: list[int] = []
        tip = ROOT  # the true path's last node
        for depth, true in enumerate(right):
            family = [rng.randrange(context.vocabulary) for _ in range(rng.randrange(3))] + [true]
            rng.shuffle(family)
            if len(set(family)) < len(family):
                family = [true]
            above = tip
            for token in family:
                tokens.append(token)
                parents.append(above)
                if token == true:
                    tip = len(tokens) - 1
            if depth and rng.random() < 0.5:  # a junk node below some earlier one, right or wrong
                parents.append(rng.randrange(-1, len(tokens)))
                tokens.append(rng.randrange(context.vocabulary))
        while context.limit > 0 and len(tokens) < self.least:
            parents.append(rng.randrange(-1, len(tokens)))
            tokens.append(rng.randrange(context.vocabulary))
        return Proposal(_within(TokenTree(tokens, parents), context.limit))


class _Drafted(Proposer):
    """A tree of two children at the root and at every first-level node, filled level by level by the draft."""

    title = summary = "test"
    needs = ("draft",)
    parents: ClassVar[tuple[int, ...]] = (-1, -1, 0, 0, 1, 2)
    random: ClassVar[bool] = True

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        assert resources.draft is not None
        self.draft = resources.draft

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("independent tree" if cls.random else "fixed tree", len(cls.parents))

    def start(self, context: Context) -> None:
        self.draft.prefill(context.tokens[:-1])

    def propose(self, context: Context) -> Proposal:
        root, tree = context.tokens[-1], TokenTree()
        numbers = context.uniforms(len(self.parents))
        count = len(_within(TokenTree([0] * len(self.parents), self.parents), context.limit))
        for node in range(count):
            q = context.warp(self.draft.read(root, tree))[self.parents[node] + 1]
            if self.random and not context.warp.greedy:
                token = int(draw(q, numbers[node]))
            else:
                siblings = [other for other in range(node) if self.parents[other] == self.parents[node]]
                logits = self.draft.read(root, tree)[self.parents[node] + 1]
                token = int(logits.topk(len(siblings) + 1).indices[-1])
            tree = TokenTree([*tree.tokens, token], self.parents[: node + 1])
        logits = self.draft.read(root, tree)
        stochastic = self.random and not context.warp.greedy
        q = context.warp(logits)[[parent + 1 for parent in tree.parents]] if stochastic else None
        return Proposal(tree, q=q, logits=logits, passes=1)

    def observe(self, context: Context, outcome: Outcome) -> None:
        self.draft.keep([0, *(node + 1 for node in outcome.path)])


class Drawn(_Drafted):
    """Siblings are drawn from q with replacement: what the recursive rejection rule is exact for."""

    name = "test-drawn"


class Ranked(_Drafted):
    """Siblings are the draft's most likely tokens: deterministic, so q is a point mass at each."""

    name = "test-ranked"
    random = False


BRANCHING: tuple[type[Proposer], ...] = (Oracle, Drawn, Ranked)


def _within(tree: TokenTree, limit: int) -> TokenTree:
    """The tree without the nodes below the length limit."""
    kept = [node for node in range(len(tree)) if tree.depths[node] <= limit]
    number = {ROOT: ROOT} | {node: index for index, node in enumerate(kept)}
    return TokenTree([tree.tokens[node] for node in kept], [number[tree.parents[node]] for node in kept])


def paths_alone(tree: TokenTree, node: int) -> TokenTree:
    """The chain from the root to `node`."""
    return TokenTree.chain([tree.tokens[step] for step in tree.path(node)])


def largest_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Maximum of |one − other|."""
    return float((one - other).abs().max())
