"""Two readers of one model given the same input, in every way a reader can be used."""

from __future__ import annotations

import random

import torch

from specdec_core.runtime.reader import Reader
from specdec_core.tree import TokenTree

from .trees import largest_difference, random_tree


def walk(one: Reader, other: Reader, tolerance: float, seed: int = 21) -> None:
    """Twenty random reads of trees and chains of 1 to 90 tokens, then of their last half and their last node alone,
    each followed by keeping a path, perhaps a step and a rewind. All logits and watched states must agree, when they
    are given and still at the end."""
    rng = random.Random(seed)
    readers = (one, other)
    watched: tuple[list[torch.Tensor], ...] = ([], [])
    given: tuple[list[torch.Tensor], ...] = ([], [])
    prompt = [rng.randrange(one.vocabulary) for _ in range(11)]
    for reader, states in zip(readers, watched, strict=True):
        reader.watch(states.append)
        reader.prefill(prompt)
    for number in range(20):
        size = 89 if number == 7 else rng.choice((0, 1, 3, 6, 12, 40))
        root, tree = rng.randrange(one.vocabulary), random_tree(size, one.vocabulary, rng)
        if number % 3 == 0:
            tree = TokenTree.chain(tree.tokens)
        positions = [0, *(node + 1 for node in tree.path(rng.randrange(-1, size)))]
        tokens = [rng.randrange(one.vocabulary) for _ in range(rng.randrange(1, 4))]
        for reader, logits in zip(readers, given, strict=True):
            logits.append(reader.read(root, tree))
            logits += [reader.read(root, tree, known) for known in {size // 2, size} if known]
            reader.keep(positions)
            if number % 4 == 1:
                logits.append(reader.step(torch.tensor(tokens, device=reader.device))[None])
        compare(given[0][-1], given[1][-1], tolerance)
        if number % 5 == 2 or one.length > 80:
            length = rng.randrange(5, one.length)
            for reader in readers:
                reader.rewind(length)
        assert one.length == other.length
    assert len(watched[0]) == len(watched[1]) > 20
    for first, second in zip([*given[0], *watched[0]], [*given[1], *watched[1]], strict=True):
        compare(first, second, tolerance * max(1.0, float(first.abs().max()) / 10))


def compare(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> None:
    """Same shape and dtype, and nowhere further apart than `tolerance`."""
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    assert largest_difference(one, other) <= tolerance
