"""From logits to the distribution that is sampled: temperature, top-k, top-p, min-p, applied alike to p and q.

Penalties, which depend on the text so far, come first; see `penalties`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from specdec_core.foundations.lazy_torch import torch
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Warp:
    """Temperature, then top-k, then top-p, then min-p, in the order of transformers' `generate`.

    `temperature` 0 is greedy: the distribution is one-hot at the argmax (the first one, if several are equal).
    `top_k` 0, `top_p` 1 and `min_p` 0 switch these off. Tokens that tie with the k-th stay, as in `generate`, and so do
    tokens whose probability is exactly `min_p` times that of the most likely.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The warp of a decode's settings; unset ones are off."""
        return cls(settings.temperature, settings.top_k, settings.top_p, settings.min_p or 0.0)

    @property
    def greedy(self) -> bool:
        """Whether every distribution is one-hot."""
        return self.temperature == 0.0

    def __call__(self, logits: Tensor) -> Tensor:
        """The sampled distribution: float32 (…, V) → float32 (…, V), each row summing to 1."""
        if self.greedy:
            return torch.zeros_like(logits).scatter_(-1, first_best(logits).unsqueeze(-1), 1.0)
        logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            kth = logits.topk(self.top_k, dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < kth, -torch.inf)
        probs = logits.softmax(-1)
        if self.top_p < 1.0:
            probs = _nucleus(probs, self.top_p)
        if self.min_p > 0.0:
            probs = probs.masked_fill(probs < self.min_p * probs.amax(-1, keepdim=True), 0.0)
            probs = probs / probs.sum(-1, keepdim=True)
        return probs


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of most likely tokens whose mass reaches `top_p` (Holtzman et al. 2020), renormalised."""
    ordered, order = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(before >= top_p, 0.0)
    kept = torch.zeros_like(probs).scatter_(-1, order, ordered)
    return kept / kept.sum(-1, keepdim=True)


def first_best(scores: Tensor) -> Tensor:
    """The token of the largest score in each row, the first of equal ones: float32 (…, V) → int64 (…)."""
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        # numpy's search takes a tenth of the time of torch's
        return torch.from_numpy(np.asarray(scores.detach().numpy().argmax(-1)))
    return scores.argmax(-1)


def draw(probs: Tensor, uniform: float | Tensor) -> Tensor:
    """The token at which the cumulative distribution passes `uniform`: probs (V,) → int64 scalar tensor.

    `probs` need not be normalised; a token of probability 0 is never drawn. Sums run in float64.
    """
    # MPS has no float64
    cumulative = (probs.cpu() if probs.device.type == "mps" else probs).double().cumsum(-1)
    if probs.device.type == "cpu":  # the same search without the dispatch of six small tensor operations
        sums = cumulative.numpy()
        chosen = min(
            sums.searchsorted(sums[-1] * float(uniform), "right"), sums.searchsorted(sums[-1], "left")
        )
        return torch.tensor(int(chosen))
    target = cumulative[-1] * uniform
    index = torch.searchsorted(cumulative, target.reshape(1), right=True)
    last = torch.searchsorted(cumulative, cumulative[-1:], right=False)  # where the sum reaches its total
    return torch.minimum(index, last).squeeze(0).to(probs.device)


def at_temperature(logits: Sequence[float], temperature: float) -> list[float]:
    """What is sampled at that temperature, as plain float64 numbers, for callers without tensors."""
    row: list[float] = Warp(temperature)(torch.tensor(logits, dtype=torch.float64)).tolist()
    return row


def residual(p: Tensor, q: Tensor) -> Tensor:
    """norm(max(0, p − q)), from which the corrected token is drawn (Leviathan et al. 2023, Algorithm 1).

    Where rounding leaves no mass (p equals q), a rejection has probability 0; p is returned to avoid NaN.
    """
    rest = (p - q).clamp_min(0.0)
    mass = rest.sum()
    return rest / mass if float(mass) > 0.0 else p


def narrow(logits: Tensor, ids: Tensor | None) -> Tensor:
    """Of logits (…, V) those of a draft vocabulary, (…, k)."""
    return logits if ids is None else logits.index_select(-1, ids)


def widen(logits: Tensor, ids: Tensor | None, vocabulary: int) -> Tensor:
    """Logits (…, k) of a draft vocabulary as (…, vocabulary): −∞ for tokens that cannot be guessed."""
    if ids is None:
        return logits
    wide = logits.new_full((*logits.shape[:-1], vocabulary), -torch.inf)
    wide[..., ids] = logits
    return wide
