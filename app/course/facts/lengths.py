"""Draft length, as the lessons use it."""

from __future__ import annotations

from specdec_measure import theory

__all__ = ["best_length_sloped", "speedup_sloped", "used_share"]

LONGEST = 16


def used_share(alpha: float, gamma: int) -> float:
    """The share of γ guesses that ends up in the text, each accepted with probability α if those before it were."""
    return (theory.tokens_per_pass(alpha, gamma) - 1.0) / gamma


def speedup_sloped(alpha: float, gamma: int, cost: float, slope: float) -> float:
    """Speedup where each token beyond the first adds `slope` of a plain pass to the checking pass."""
    expected = theory.tokens_per_pass(alpha, gamma)
    return theory.speedup_on({1: 1.0, 2: 1.0 + slope}, expected, gamma, cost)


def best_length_sloped(alpha: float, cost: float, slope: float, most: int = LONGEST) -> int:
    """The γ from 0 to `most` that maximises it, the shortest of equals."""
    return max(range(most + 1), key=lambda gamma: speedup_sloped(alpha, gamma, cost, slope))
