"""The formulas of speculative decoding, as the lessons call them."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_measure import theory
from specdec_measure.theory import (
    best_draft_length,
    correct_guess_rate,
    oracle_speedup,
    overlap_gain,
    overlapped_time,
    speedup,
    tokens_per_pass,
)

__all__ = [
    "acceptance",
    "best_draft_length",
    "best_length_sloped",
    "correct_guess_rate",
    "keep_chance",
    "oracle_speedup",
    "overlap_gain",
    "overlapped_time",
    "residual",
    "speedup",
    "speedup_sloped",
    "tokens_per_pass",
    "used_share",
]

MAX_GAMMA = 16


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


def used_share(alpha: float, gamma: int) -> float:
    """The share of γ guesses that ends up in the text, each accepted with probability α if those before it were."""
    return (tokens_per_pass(alpha, gamma) - 1.0) / gamma


def speedup_sloped(alpha: float, gamma: int, cost: float, slope: float) -> float:
    """Speedup where each token beyond the first adds `slope` of a plain pass to the checking pass."""
    expected = tokens_per_pass(alpha, gamma)
    return theory.speedup_on({1: 1.0, 2: 1.0 + slope}, expected, gamma, cost)


def best_length_sloped(alpha: float, cost: float, slope: float, most: int = MAX_GAMMA) -> int:
    """The γ from 0 to `most` that maximises it, the shortest of equals."""
    return max(range(most + 1), key=lambda gamma: speedup_sloped(alpha, gamma, cost, slope))
