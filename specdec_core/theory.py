"""The formulas of Leviathan et al. 2023 (arXiv 2211.17192). All assume independent positions with one rate α."""

from __future__ import annotations

from .errors import SettingsError


def _check(alpha: float, gamma: int, cost: float = 0.0) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise SettingsError(f"The acceptance rate α must lie between 0 and 1, got {alpha!r}.")
    if gamma < 0:
        raise SettingsError(f"The draft length γ must be at least 0, got {gamma!r}.")
    if not cost >= 0.0:
        raise SettingsError(f"The cost ratio c must be at least 0, got {cost!r}.")


def tokens_per_pass(alpha: float, gamma: int) -> float:
    """Expected committed tokens per target pass, Equation 1: (1 − α^(γ+1)) / (1 − α); γ + 1 at α = 1."""
    _check(alpha, gamma)
    return float(sum(alpha**depth for depth in range(gamma + 1)))


def speedup(alpha: float, gamma: int, cost: float) -> float:
    """Expected walltime improvement, Theorem 3.8: (1 − α^(γ+1)) / ((1 − α)(γc + 1)).

    Args:
        alpha: acceptance rate.
        gamma: draft length.
        cost: c, the time of one draft pass over that of one plain target pass. A verifying pass over γ + 1 tokens is
            taken to cost as much as a plain pass, which a real machine does not quite grant.
    """
    _check(alpha, gamma, cost)
    return tokens_per_pass(alpha, gamma) / (gamma * cost + 1.0)
