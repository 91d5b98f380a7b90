"""Why greedy decoding can write a different text when nothing is wrong: a logit is a sum, and sums are rounded.

A pass over one token and a pass over several may add the same terms in a different order. Each step is stored in a few
bits, so the two sums can end one step apart, and where two tokens are that close, the argmax changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.foundations.lazy_torch import torch
from specdec_core.sampling import Warp

FORMATS = ("bfloat16", "float16", "float32")


def running_sums(terms: Sequence[float], stored: str) -> list[float]:
    """The sum after each of `terms`, stored in the format `stored` (of `FORMATS`) before the next one is added."""
    kind = getattr(torch, stored)
    total = torch.zeros((), dtype=kind)
    sums = []
    for term in terms:
        total = total + torch.tensor(term, dtype=kind)
        sums.append(float(total))
    return sums


def alone_and_among(sums: int, terms: int, rows: int, seed: int = 0) -> list[tuple[float, float]]:
    """The same float32 sums computed on this machine in a pass over one position, and over `rows` positions.

    Args:
        sums: how many; each is a product of a random state with a random row of weights.
        terms: of each sum.
        rows: positions of the second pass; the first of them is the position that the first pass is about.
        seed: of state and weights.
    """
    random = torch.Generator().manual_seed(seed)
    states, weights = (torch.randn(count, terms, generator=random) for count in (rows, sums))
    alone, among = (torch.nn.functional.linear(read, weights)[0] for read in (states[:1], states))
    return list(zip(alone.tolist(), among.tolist(), strict=True))


def most_likely(logits: Sequence[float]) -> int:
    """The token taken at temperature 0; the first of equal ones."""
    return int(Warp()(torch.tensor(logits, dtype=torch.float64)).argmax())
