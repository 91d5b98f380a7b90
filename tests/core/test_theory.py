"""The formulas against the numbers their authors printed, and against identities."""

from __future__ import annotations

import math

import pytest

import specdec_core as sd
from specdec_core.theory import speedup, tokens_per_pass

# Leviathan et al. 2023, Table 1: α, γ, speed (tokens per iteration, as c is taken to be 0 there).
TABLE_1 = [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)]


@pytest.mark.parametrize(("alpha", "gamma", "printed"), TABLE_1)
def test_tokens_per_pass_equals_the_published_table(alpha: float, gamma: int, printed: float) -> None:
    """To the two decimals of the paper."""
    assert round(tokens_per_pass(alpha, gamma), 2) == printed
    assert speedup(alpha, gamma, 0.0) == tokens_per_pass(alpha, gamma)


@pytest.mark.parametrize("gamma", [0, 1, 4, 64])
@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.3, 0.999999, 1.0])
def test_identities(alpha: float, gamma: int) -> None:
    """The recursion E(γ + 1) = 1 + α E(γ), the closed form, and the ends. Tolerance 1e-9 relative."""
    expected = tokens_per_pass(alpha, gamma)
    assert tokens_per_pass(alpha, gamma + 1) == pytest.approx(1 + alpha * expected, rel=1e-9)
    assert 1.0 <= expected <= gamma + 1
    if alpha < 0.9:
        assert expected == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha), rel=1e-9)
    assert tokens_per_pass(1.0, gamma) == gamma + 1
    assert tokens_per_pass(0.0, gamma) == 1


@pytest.mark.parametrize(("alpha", "cost"), [(0.6, 0.1), (0.8, 0.05), (0.9, 0.5)])
def test_some_draft_length_wins_where_the_rate_exceeds_the_cost(alpha: float, cost: float) -> None:
    """Corollary 3.9: if α > c, the factor at γ = 1 is (1 + α)/(1 + c) > 1."""
    assert speedup(alpha, 1, cost) == pytest.approx((1 + alpha) / (1 + cost))
    assert speedup(cost, 1, alpha) < 1


@pytest.mark.parametrize(
    "values",
    [(-0.1, 4, 0.1), (1.1, 4, 0.1), (math.nan, 4, 0.1), (0.5, -1, 0.1), (0.5, 4, -0.1), (0.5, 4, math.nan)],
)
def test_a_value_out_of_range_is_refused(values: tuple[float, int, float]) -> None:
    """Catches: a curve through nonsense."""
    with pytest.raises(sd.SettingsError):
        speedup(*values)
