"""Medusa's fixed trees: the published lists of choices, what follows from one, and how to grow one (Cai et al. 2024).

A choice is the path of ranks that leads to a node: (0, 2) is the second head's third guess below the first head's
best. A list of choices is a tree if it holds all prefixes of its choices.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from torch import Tensor

Choice = tuple[int, ...]

# Each word is a choice, a digit per level, in the order in which the published trees were grown.
_LISTS = {
    "mc_sim_7b_63": """
        0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 11 7 08 002 30 09 8 9 100 020 12 003 40 21 004 005
        0000 011 006 030 50 13 007 008 009 60 040 14 70 012 200 31 22 80 050 15 101 021 90 060 0001 16 070""",
    "vicuna_7b_stage2": """
        0 00 1 01 000 10 2 02 001 03 3 010 20 4 002 04 11 100 0000 5 003 05 020 30 011 06 6 07 004 40 12 08 7 030
        0001 005 21 006 101 0010 200 50 09 012 8 040 021 13 007 0002 008 110 0100 60 9 013 0003 102 050 31 0020 70
        14""",
    "vicuna_13b_stage2": """
        0 00 1 000 01 10 2 02 001 010 3 03 20 002 0000 04 100 11 4 003 05 020 5 30 011 06 004 0001 07 005 12 0010
        030 101 40 006 08 200 09 6 7 21 50 012 0002 8 040 0100 021 007 110 13 0020 9 008 050 0003 009 013 102 0011
        300 1000""",
    "vicuna_33b_stage2": """
        0 00 1 01 000 10 2 02 001 03 3 010 20 04 4 002 11 100 05 5 0000 003 30 020 06 011 6 004 07 7 12 40 8 030
        005 0001 08 21 09 101 200 006 50 0010 13 012 040 007 021 9 110 0002 60 008 0100 70 013 050 14 009 31 102
        22""",
    "zephyr_stage2": """
        0 00 1 01 2 000 10 02 3 03 4 20 001 04 5 05 010 11 6 002 30 06 7 07 08 003 100 09 020 12 40 8 9 21 011 004
        0000 50 030 13 005 006 60 200 101 012 040 14 31 22 007 70 021 008 013 050 15 009 110 0001 0010 41 23""",
}
PUBLISHED: dict[str, tuple[Choice, ...]] = {
    name: tuple(tuple(int(digit) for digit in word) for word in words.split())
    for name, words in _LISTS.items()
}

# Shares of right guesses by head and rank, as published for Vicuna 7B (five heads, ranks one to five). Heads without
# measurements are assumed to be as good.
_PUBLISHED_ACCURACY = (
    (0.560, 0.111, 0.055, 0.033, 0.020),
    (0.316, 0.107, 0.062, 0.043, 0.034),
    (0.201, 0.087, 0.060, 0.036, 0.033),
    (0.147, 0.078, 0.049, 0.037, 0.029),
    (0.118, 0.069, 0.048, 0.038, 0.028),
)
_FURTHER_RANK = 0.7  # assumed beyond the table: each further rank or head has this share of the previous one


MAX_LIST_LENGTH = 8_000  # characters of a list
_ENTRY = re.compile(r"\s*[\[(](\s*\d{1,3}\s*(?:,\s*\d{1,3}\s*){0,63},?\s*)[\])]\s*(?:,|$)\s*")


@dataclass(frozen=True, slots=True)
class Buffers:
    """The inputs of the target's pass for a fixed tree of n nodes; index 0 is the root, i + 1 the i-th choice.

    Attributes:
        choices: by depth, then by rank, in the order of the pass.
        mask: bool (n + 1, n + 1), true where the column is the row or its ancestor.
        positions: depth of each index, to be added to the root's position.
        paths: int64 (leaves, depth + 1), for each leaf the indices from the root down, −1 past its end; the last
            leaf first.
    """

    choices: list[Choice]
    mask: Tensor
    positions: list[int]
    paths: Tensor


def check(choices: Iterable[Sequence[int]]) -> list[Choice]:
    """The choices as tuples, in the given order.

    Raises:
        SettingsError: if they are not a tree: empty, a negative rank, a choice given twice or without its prefix.
    """
    paths = [tuple(choice) for choice in choices]
    known = set(paths)
    if not paths or () in known:
        raise SettingsError(
            "A tree of choices needs at least one choice and no empty one, as in [[0], [0, 0]]."
        )
    if any(rank < 0 for path in paths for rank in path):
        raise SettingsError("The choices of a tree are ranks counted from 0; one is negative.")
    if len(known) < len(paths):
        raise SettingsError("The choices of a tree name a node twice. Give each choice once.")
    lost = next((path for path in paths if len(path) > 1 and path[:-1] not in known), None)
    if lost is not None:
        raise SettingsError(f"The choices of a tree hold {list(lost)} without {list(lost[:-1])}. Add it.")
    return paths


def read(text: str, nodes: int, levels: int, ranks: int) -> list[Choice]:
    """The choices that a text lists, as published: `[[0], [0, 0], [1]]` or `[(0,), (0, 0), (1,)]`.

    Args:
        text: the list, with or without a name and `=` before it.
        nodes, levels, ranks: limits on the number, length and ranks of choices.

    Raises:
        SettingsError: one sentence, if it is not such a list, too large, or not a tree.
    """
    if len(text) > MAX_LIST_LENGTH:
        raise SettingsError(
            f"The list has {len(text):,} characters; at most {MAX_LIST_LENGTH:,} are read. Give a smaller tree."
        )
    body = re.sub(r"^\s*[A-Za-z_]\w{0,60}\s*=", "", text).strip()
    if not (body.startswith("[") and body.endswith("]") and len(body) > 1):
        raise SettingsError("A tree of choices is a list of lists in brackets, as in [[0], [0, 0], [1]].")
    found: list[Choice] = []
    at, body = 0, body[1:-1].strip()
    while at < len(body):
        entry = _ENTRY.match(body, at)
        if entry is None:
            raise SettingsError(
                f"Choice number {len(found) + 1} cannot be read at “{body[at : at + 20]}”; write each as ranks in "
                "brackets, as in [0, 1], with a comma between two choices."
            )
        found.append(tuple(int(rank) for rank in re.findall(r"\d+", entry[1])))
        at = entry.end()
    choices = check(found)
    for choice in choices:
        if len(choice) > levels or max(choice) >= ranks:
            raise SettingsError(
                f"The choice {list(choice)} goes beyond what is guessed here: {levels} levels, ranks 0 to {ranks - 1}."
            )
    if len(choices) > nodes:
        raise SettingsError(f"The tree has {len(choices)} nodes; the budget here is {nodes}. Leave some out.")
    return choices


def arranged(choices: Iterable[Choice]) -> list[Choice]:
    """The choices by depth, then by rank, as a pass reads them."""
    return sorted(choices, key=lambda choice: (len(choice), choice))


def parents(choices: Sequence[Choice]) -> list[int]:
    """For each of the arranged choices the index of its parent among them, −1 on the first level."""
    number = {choice: index for index, choice in enumerate(choices)}
    return [number[choice[:-1]] if len(choice) > 1 else ROOT for choice in choices]


def buffers(choices: Iterable[Choice]) -> Buffers:
    """Mask, positions and retrieval paths of a tree of choices."""
    order = arranged(choices)
    tree = TokenTree([choice[-1] for choice in order], parents(order))
    leaves = [node for node in range(len(tree)) if not tree.children[node + 1]]
    paths = torch.full((len(leaves), max(tree.depths) + 1), -1)
    paths[:, 0] = 0
    for row, leaf in enumerate(reversed(leaves)):
        path = tree.path(leaf)
        paths[row, 1 : len(path) + 1] = torch.tensor(path) + 1
    return Buffers(order, tree.visible(), [0, *tree.depths], paths)


def worth(choice: Choice, accuracy: Sequence[Sequence[float]]) -> float:
    """How often a node is accepted if heads err independently: the product of the accuracies along its path."""
    found = 1.0
    for row, rank in zip(accuracy, choice, strict=False):
        found *= row[rank]
    return found


def tokens_per_pass(choices: Iterable[Choice], accuracy: Sequence[Sequence[float]]) -> float:
    """Expected committed tokens of a tree, 1 + Σ `worth` over its nodes, with accuracies by head and rank. Modelled.

    Raises:
        SettingsError: if a choice needs a head or a rank of unknown accuracy.
    """
    total = 1.0
    for choice in choices:
        if len(choice) > len(accuracy) or any(
            rank >= len(row) for rank, row in zip(choice, accuracy, strict=False)
        ):
            raise SettingsError(
                f"The choice {list(choice)} asks for a guess of which no accuracy is known: there are "
                f"{len(accuracy)} levels with up to {max(map(len, accuracy), default=0)} guesses each."
            )
        total += worth(choice, accuracy)
    return total


def grow(accuracy: Sequence[Sequence[float]], nodes: int) -> list[Choice]:
    """The tree of `nodes` choices that greedy growth finds, in the order in which they were added.

    A node is worth the product of its path's accuracies, which is its chance to be accepted if heads err
    independently; from (0,) on, the best neighbour (next sibling or first child) is added.

    Args:
        accuracy: for each head the share of right guesses by rank.
        nodes: the most choices; fewer if the accuracies cover fewer.
    """
    grown: list[Choice] = []
    border: list[tuple[float, int, Choice]] = []

    def offer(choice: Choice) -> None:
        depth, rank = len(choice), choice[-1]
        if depth <= len(accuracy) and rank < len(accuracy[depth - 1]):
            heapq.heappush(border, (-worth(choice, accuracy), depth, choice))

    offer((0,))
    while border and len(grown) < nodes:
        _, _, choice = heapq.heappop(border)
        grown.append(choice)
        offer((*choice[:-1], choice[-1] + 1))
        offer((*choice, 0))
    return grown


def assumed_accuracy(heads: int, ranks: int) -> list[list[float]]:
    """Accuracies for heads without measurements: published ones, extrapolated beyond the table."""
    table = [list(row) for row in _PUBLISHED_ACCURACY]
    while len(table) < heads:
        table.append([share * _FURTHER_RANK for share in table[-1]])
    for row in table:
        while len(row) < ranks:
            row.append(row[-1] * _FURTHER_RANK)
    return [row[:ranks] for row in table[:heads]]
