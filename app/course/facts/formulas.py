"""The formulas of speculative decoding, as the lessons call them."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_measure import theory
from specdec_measure.theory import (
    best_draft_length,
    oracle_speedup,
    overlapped_time,
    speedup,
    tokens_per_pass,
)

__all__ = [
    "acceptance",
    "best_draft_length",
    "keep_chance",
    "oracle_speedup",
    "overlapped_time",
    "residual",
    "speedup",
    "tokens_per_pass",
]


def acceptance(p: Sequence[float], q: Sequence[float]) -> float:
    """How often a token drawn from q is accepted: Σ min(p, q)."""
    return theory.acceptance_rate([p], [q])


def keep_chance(p: float, q: float) -> float:
    """Probability that a proposed token with these probabilities is kept: min(1, p/q)."""
    return min(1.0, p / q)


def residual(p: Sequence[float], q: Sequence[float]) -> list[float]:
    """The distribution of the corrected token: norm(max(0, p − q)); zeros if p = q."""
    left = [max(0.0, one - other) for one, other in zip(p, q, strict=True)]
    total = sum(left)
    return [value / total if total else 0.0 for value in left]
