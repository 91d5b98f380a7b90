"""Rows of logits in numbers: their probabilities, entropies, leading candidates, and ranks of single tokens."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from specdec_core.record.schema import TOP, Candidates
from specdec_core.sampling import first_best

BLOCK = 32  # numbers of a row that are looked through together


class Probs:
    """Stacked logits (N, k) of the tokens `ids`, or of all V, and their softmax."""

    def __init__(self, logits: Tensor, room: Tensor | None = None, ids: Tensor | None = None) -> None:
        self.logits, self.ids = logits, ids
        self.probs = torch.softmax(logits, -1, out=room)

    def at(self, rows: list[int], tokens: Tensor) -> list[float]:
        """The probability of a token in each of these rows; 0 of one that is not among the logits."""
        if self.ids is None:
            every: list[float] = self.probs[rows, tokens].tolist()
            return every
        columns = torch.searchsorted(self.ids, tokens).clamp_max_(len(self.ids) - 1)
        found: list[float] = (self.probs[rows, columns] * (self.ids[columns] == tokens)).tolist()
        return found

    def candidates(self, rows: list[int]) -> list[Candidates]:
        """The leading candidates of these rows."""
        return candidates_of(rows_of(self.probs, rows), self.ids)


class Described(Probs):
    """The models' own probabilities (temperature 1) with their entropies."""

    def __init__(self, logits: Tensor, room: Tensor, ids: Tensor | None = None) -> None:
        super().__init__(logits, room, ids)
        self.best = first_best(logits)
        self.entropy, self.largest = spread(self.probs, logits, self.best)


def spread(
    probs: Tensor, logits: Tensor, best: Tensor, temperature: float = 1.0
) -> tuple[list[float], list[float]]:
    """Entropy and largest probability per row (N, V) of `probs`, which are softmax(logits / T), cut or not; `best` are
    the places (N,) of the largest."""
    # H = log Σ exp z − Σ p z with z = logits / T, and log Σ exp z = max z − log max p, where the sums run over what the
    # cut left: no logarithm or exponential per number.
    places = best.unsqueeze(-1)
    largest = probs.gather(-1, places).squeeze(-1)
    mean = torch.linalg.vecdot(probs, logits)
    if not bool(mean.isfinite().all()):  # 0 × −∞: an id that a draft lacks, or that a penalty bans
        mean = torch.linalg.vecdot(probs, logits.clamp_min(torch.finfo(logits.dtype).min))
    entropy = ((logits.gather(-1, places).squeeze(-1) - mean) / temperature - largest.log()).clamp_min(0.0)
    # Nine decimals are precise enough for float32 and take half the space in JSON.
    return _short(entropy), _short(largest)


def _short(values: Tensor) -> list[float]:
    return [round(value, 9) for value in values.tolist()]


def ranks(scores: Tensor, rows: list[int], tokens: list[int]) -> list[int]:
    """1 + the number of scores (N, V) above that of a token, for one token of each of these rows."""
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        # a row is compared where it lies; torch would copy it for each of its guesses
        numbers = scores.numpy()
        return [
            1 + int(np.count_nonzero(numbers[row] > numbers[row, token]))
            for row, token in zip(rows, tokens, strict=True)
        ]
    chosen = scores[rows]
    above = chosen > chosen.gather(1, torch.tensor(tokens, device=scores.device).unsqueeze(1))
    return [1 + int(count) for count in above.sum(-1).tolist()]


def rows_of(probs: Tensor, rows: list[int]) -> Tensor:
    """Those rows of (N, V); a fifth of the time of `probs[rows]`."""
    return probs.index_select(0, torch.tensor(rows, device=probs.device))


def candidates_of(probs: Tensor, ids: Tensor | None = None) -> list[Candidates]:
    """The leading `TOP` of each row of (N, k), without zeros, and the mass of the rest; `ids` as in `Described`."""
    leading, tokens = largest(probs)
    tokens = tokens if ids is None else ids[tokens]
    # Subtracted from 1, not from the row's sum: over many tokens a float32 sum errs in the sixth digit.
    tails = (1.0 - leading.double().sum(-1)).clamp(0.0, 1.0).tolist()
    heads = []
    for names, values, tail in zip(tokens.tolist(), leading.tolist(), tails, strict=True):
        count = sum(value > 0.0 for value in values)
        heads.append(Candidates(names[:count], values[:count], tail if count == len(values) else 0.0))
    return heads


def largest(probs: Tensor) -> tuple[Tensor, Tensor]:
    """The `TOP` largest of each row of (N, V) and their places, (N, TOP) each: all of them are in the `TOP` blocks with
    the largest maxima. A search of whole rows takes two to five times as long."""
    count, width = probs.shape
    blocks = width // BLOCK
    if blocks <= TOP:
        return probs.topk(min(TOP, width), -1)
    cut = blocks * BLOCK
    whole = probs[:, :cut].view(count, blocks, BLOCK)
    best = whole.amax(-1).topk(TOP, -1).indices
    places = (best.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=probs.device)).flatten(1)
    if cut < width:
        rest = torch.arange(cut, width, device=probs.device).expand(count, -1)
        places = torch.cat((places, rest), 1)
    leading, order = probs.gather(1, places).topk(TOP, -1)
    return leading, places.gather(1, order)
