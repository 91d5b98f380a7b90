"""The candidates of a tree that grows from a head's states, and the most likely ones below each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from specdec_core.round import Dropped
from specdec_core.sampling.penalties import Past
from specdec_core.tree import ROOT

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class TreeCandidates:
    """All candidates of a round, level by level.

    Attributes:
        levels: how many.
        tokens: their ids.
        columns: their columns of `logits`.
        parents: for each the index of its parent among them, −1 below the root.
        scores: log of the product of probabilities down its path, after penalties and at the tree's temperature; never
            above its parent's.
        read: the expanded candidates, in the order of the rows of `logits` after row 0.
        logits: float32 (1 + len(read), k) over what the head may guess: after the root, then after each of `read`.
        penalised: the same after penalties; None without any.
    """

    levels: int
    tokens: list[int]
    columns: list[int]
    parents: list[int]
    scores: Tensor
    read: list[int]
    logits: Tensor
    penalised: Tensor | None

    def chances(self, candidates: list[int]) -> list[float | None]:
        """The probability of each after its parent, after penalties and at the tree's temperature."""
        scores = self.scores.tolist()
        above = (0.0 if self.parents[one] == ROOT else scores[self.parents[one]] for one in candidates)
        return [min(1.0, exp(scores[one] - high)) for one, high in zip(candidates, above, strict=True)]

    def own(self, candidates: list[int], logits: Tensor) -> list[float]:
        """The probability of each after its parent at temperature 1, by `logits` or `penalised`."""
        row = {ROOT: 0} | {candidate: place for place, candidate in enumerate(self.read, start=1)}
        chances = logits[[row[self.parents[one]] for one in candidates]].softmax(-1)
        found: list[float] = chances[
            range(len(candidates)), [self.columns[one] for one in candidates]
        ].tolist()
        return found

    def dropped(self, pruned: list[int], number: dict[int, int]) -> list[Dropped]:
        """Expanded candidates that were not sent, for the record; `number` maps those that were, and the root, to their
        nodes. What was not expanded either is only an entry of q."""
        if not pruned:
            return []
        numbers = number | {one: place for place, one in enumerate(pruned, start=len(number) - 1)}
        own = self.own(pruned, self.logits)
        after = [None] * len(pruned) if self.penalised is None else self.own(pruned, self.penalised)
        return [
            Dropped(self.tokens[one], numbers[self.parents[one]], "pruned", q, left)
            for one, q, left in zip(pruned, own, after, strict=True)
        ]


def penalised(logits: Tensor, past: Past | None, paths: list[list[int]], ids: Tensor | None) -> Tensor:
    """Logits (n, k) after the penalties of the text and each path. `ids` says what their columns are in the target's
    vocabulary, if not all of it."""
    return logits if past is None else past.penalised(logits, paths, ids)


def best(logits: Tensor, wide: int, temperature: float) -> tuple[Tensor, Tensor]:
    """The most likely `wide` tokens of each row at that temperature: log-probabilities and columns, each (n, wide)."""
    found = (logits if temperature == 1.0 else logits / temperature).log_softmax(-1).topk(wide)
    return found.values, found.indices
