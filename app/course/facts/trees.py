"""Proposal trees as the lessons use them: what a node sees, a tree's expected tokens, how it would have performed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from specdec_core.foundations.errors import SpecdecError
from specdec_core.models import catalogue
from specdec_core.proposers.heads import medusa_tree
from specdec_core.proposers.heads.medusa_tree import Choice
from specdec_measure.analysis.other_tree import Replanted, replant

from .recorded import trace

__all__ = [
    "apart_guesses",
    "cells_seen",
    "grown_tree_tokens",
    "place_in_text",
    "tree_guesses",
    "tree_paths",
    "tree_tokens",
]

Choices = Sequence[Sequence[int]]
RANKS = 10  # guesses of one level that are distinguished


def cells_seen(tree: Choices, node: Sequence[int]) -> int:
    """How many cells of its row in the tree mask a node sees, itself and the root included."""
    found = medusa_tree.buffers(medusa_tree.check(tree))
    return int(found.mask[found.choices.index(tuple(node)) + 1].sum())


def place_in_text(tree: Choices, node: Sequence[int]) -> int:
    """A node's position, counted from the root's."""
    found = medusa_tree.buffers(medusa_tree.check(tree))
    return found.positions[found.choices.index(tuple(node)) + 1]


def tree_guesses(tree: Choices) -> int:
    """Guesses that the target reads with a tree: its nodes."""
    return len(medusa_tree.check(tree))


def tree_paths(tree: Choices) -> int:
    """Paths from the root to a leaf."""
    return len(medusa_tree.buffers(medusa_tree.check(tree)).paths)


def apart_guesses(tree: Choices) -> int:
    """Guesses that the target would read if every path were a sequence of its own."""
    paths = medusa_tree.buffers(medusa_tree.check(tree)).paths
    return int((paths[:, 1:] >= 0).sum())


def tree_tokens(tree: Choices, rate: float) -> float:
    """Expected tokens per pass if each guess is right in the share `rate` of the remaining cases. Modelled."""
    return medusa_tree.tokens_per_pass(medusa_tree.check(tree), even(rate))


def grown_tree_tokens(nodes: int, rate: float) -> float:
    """The same for the best tree of so many nodes."""
    return medusa_tree.tokens_per_pass(medusa_tree.grow(even(rate), nodes), even(rate))


def even(rate: float, levels: int = 16) -> tuple[tuple[float, ...], ...]:
    """Accuracies by level and rank of a guesser that is right at `rate` of what its earlier guesses missed."""
    return ((*(rate * (1.0 - rate) ** rank for rank in range(RANKS)),),) * levels


def of_heads() -> tuple[tuple[float, ...], ...]:
    """The bundled Medusa heads' accuracies by head and rank, as measured when they were trained.

    Raises:
        ValueError: if none are bundled.
    """
    folder = catalogue.bundled_folder() / "specdec-medusa"
    return _measured(folder, (folder / "config.json").stat().st_mtime_ns if folder.is_dir() else 0)


@lru_cache(maxsize=4)
def _measured(folder: Path, _changed: int) -> tuple[tuple[float, ...], ...]:
    from specdec_core.models.heads.medusa import read_accuracy  # here: it imports torch

    found = read_accuracy(folder)
    if found is None:
        raise ValueError("No Medusa heads with measured accuracies are bundled; train some (see training/).")
    return tuple(tuple(row[:RANKS]) for row in found)


@lru_cache(maxsize=512)
def on_record(example: str, choices: tuple[Choice, ...]) -> tuple[Replanted, ...] | None:
    """Every recorded round of an example with another tree; None where its record does not say."""
    try:
        return tuple(replant(trace(example), choices))
    except SpecdecError:
        return None
