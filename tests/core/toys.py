"""Toy distributions and tree shapes for the enumerator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

from specdec_core.tree import ROOT
from specdec_measure.exact.distribution import Context, NextProbs

Shape = tuple[int, ...]


def random_next_probs(seed: int | str, vocabulary: int = 3, zeros: bool = False) -> NextProbs:
    """A distribution for each context, all different; with `zeros`, about half of them rule a token out."""

    @cache
    def next_probs(context: Context) -> Sequence[float]:
        source = random.Random(f"{seed}:{context}")
        weights = [source.random() + 0.05 for _ in range(vocabulary)]
        if zeros and source.random() < 0.5:
            weights[source.randrange(vocabulary)] = 0.0
        return [weight / sum(weights) for weight in weights]

    return next_probs


def one_hot(next_probs: NextProbs) -> NextProbs:
    """The same at temperature 0."""

    @cache
    def greedy(context: Context) -> Sequence[float]:
        probs = next_probs(context)
        best = max(range(len(probs)), key=lambda token: probs[token])
        return [float(token == best) for token in range(len(probs))]

    return greedy


def ordered_trees(size: int) -> Iterator[Shape]:
    """Every ordered tree of `size` nodes below the root, numbered depth first: the Catalan numbers 1, 2, 5, 14, …"""

    def grow(parents: Shape) -> Iterator[Shape]:
        if len(parents) == size:
            yield parents
            return
        parent = len(parents) - 1
        while True:
            yield from grow((*parents, parent))
            if parent == ROOT:
                return
            parent = parents[parent]

    return grow(())


def numbered_trees(size: int) -> Iterator[Shape]:
    """Every tree of `size` nodes in every topological order: 1, 2, 6, 24, …"""
    if size == 0:
        yield ()
        return
    for parents in numbered_trees(size - 1):
        for parent in range(-1, size - 1):
            yield (*parents, parent)


def large_trees(count: int, widest: int = 3, seed: int = 0) -> list[Shape]:
    """Random trees of 7 to 12 nodes in random topological order, with at most `widest` siblings."""
    source = random.Random(seed)
    shapes: list[Shape] = []
    while len(shapes) < count:
        shape = tuple(source.randrange(-1, node) for node in range(source.randrange(7, 13)))
        if family(shape) <= widest:
            shapes.append(shape)
    return shapes


def family(shape: Shape) -> int:
    """The most siblings in one place."""
    return max((shape.count(parent) for parent in shape), default=0)


def is_chain(shape: Shape) -> bool:
    """Whether no node has a sibling."""
    return family(shape) <= 1
