"""The candidates of a tree that grows from a head's states, and the most likely ones below each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from specdec_core.penalties import Past
from specdec_core.tree import ROOT

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class Candidates:
    """All candidates of a round, level by level.

    Attributes:
        levels: how many.
        tokens: their ids.
        parents: for each the index of its parent among them, −1 below the root.
        scores: log of the product of probabilities down its path, after penalties and at the tree's temperature; never
            above its parent's.
        own, after: log of the head's own probability of it after its parent, before and after penalties.
        read: the expanded candidates, in the order of the rows of `logits` after row 0.
        logits: float32 (1 + len(read), k) over what the head may guess: after the root, then after each of `read`.
        penalised: the same after penalties; None without any.
    """

    levels: int
    tokens: list[int]
    parents: list[int]
    scores: Tensor
    own: Tensor
    after: Tensor
    read: list[int]
    logits: Tensor
    penalised: Tensor | None

    def chances(self, candidates: list[int]) -> list[float | None]:
        """The probability of each after its parent, after penalties and at the tree's temperature."""
        scores = self.scores.tolist()
        above = (0.0 if self.parents[one] == ROOT else scores[self.parents[one]] for one in candidates)
        return [min(1.0, exp(scores[one] - high)) for one, high in zip(candidates, above, strict=True)]


def penalised(logits: Tensor, past: Past | None, paths: list[list[int]], ids: Tensor | None) -> Tensor:
    """Logits (n, k) after the penalties of the text and each path. `ids` says what their columns are in the target's
    vocabulary, if not all of it."""
    return logits if past is None else past.penalised(logits, paths, ids)


def best(
    logits: Tensor, after_penalties: Tensor, wide: int, ids: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The most likely `wide` tokens of each row: log-probabilities after penalties at that temperature, ids,
    log-probabilities at temperature 1 before penalties and after them; each (n, wide)."""
    own = logits.log_softmax(-1)
    every = own if after_penalties is logits else after_penalties.log_softmax(-1)
    after, columns = every.topk(wide)
    tokens = columns if ids is None else ids[columns]
    steps = after
    if temperature != 1.0:
        steps = after / temperature - (every / temperature).logsumexp(-1, keepdim=True)
    return steps, tokens, after if after_penalties is logits else own.gather(-1, columns), after
