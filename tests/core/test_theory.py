"""The formulas against the numbers their authors printed, and against processes that are played or enumerated."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import specdec_core as sd
from specdec_measure import theory
from specdec_measure.theory import speedup, tokens_per_pass

# Leviathan et al. 2023, Table 1 (c = ĉ = 0): α, γ, operations, speed.
TABLE_1 = [
    (0.6, 2, 1.53, 1.96),
    (0.7, 3, 1.58, 2.53),
    (0.8, 2, 1.23, 2.44),
    (0.8, 5, 1.63, 3.69),
    (0.9, 2, 1.11, 2.71),
    (0.9, 10, 1.60, 6.86),
]

# Table 4 of the same paper: γ, α, c, expected improvement, for T5-XXL and three drafts on two tasks.
TABLE_4 = [
    (7, 0.75, 0.02, 3.2),
    (7, 0.80, 0.04, 3.3),
    (7, 0.82, 0.11, 2.5),
    (7, 0.62, 0.02, 2.3),
    (5, 0.68, 0.04, 2.4),
    (3, 0.71, 0.11, 2.0),
    (5, 0.65, 0.02, 2.4),
    (5, 0.73, 0.04, 2.6),
    (3, 0.74, 0.11, 2.0),
    (5, 0.53, 0.02, 1.9),
    (3, 0.55, 0.04, 1.8),
    (3, 0.56, 0.11, 1.6),
]
RATES = [0.0, 0.05, 0.3, 0.5, 0.62, 0.75, 0.8, 0.9, 0.95, 0.99]
COSTS = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.9]


@pytest.mark.parametrize(("alpha", "gamma", "operations", "speed"), TABLE_1)
def test_speed_and_operations_equal_the_published_table(
    alpha: float, gamma: int, operations: float, speed: float
) -> None:
    """To the two decimals of the paper's Table 1. Catches: an exponent or a γ + 1 that is off by one."""
    assert round(tokens_per_pass(alpha, gamma), 2) == speed
    assert speedup(alpha, gamma, 0.0) == tokens_per_pass(alpha, gamma)
    assert theory.operations(alpha, gamma, 0.0) == pytest.approx(operations, abs=0.00501)


@pytest.mark.parametrize(("gamma", "alpha", "cost", "printed"), TABLE_4)
def test_speedup_equals_the_published_expectations(
    gamma: int, alpha: float, cost: float, printed: float
) -> None:
    """Table 4 prints α to two decimals and the result to one, so the result may be off by that rounding. Catches: a
    cost ratio that is counted once per round, or that leaves the target's own pass out."""
    lowest, highest = speedup(alpha - 0.005, gamma, cost + 0.005), speedup(alpha + 0.005, gamma, cost - 0.005)
    assert lowest - 0.05 <= printed <= highest + 0.05


def _played(alpha: float, gamma: int, rng: random.Random) -> tuple[int, int]:
    """One round as it happens: tokens drafted, tokens committed."""
    accepted = 0
    while accepted < gamma and rng.random() < alpha:
        accepted += 1
    return gamma, accepted + 1


@pytest.mark.parametrize(("alpha", "gamma", "cost"), [(0.8, 5, 0.1), (0.3, 2, 0.5), (0.95, 12, 0.02)])
def test_the_factors_are_what_happens_when_the_rounds_are_played(
    alpha: float, gamma: int, cost: float
) -> None:
    """Monte Carlo, 40,000 rounds. A round's tokens have a standard deviation of at most γ/2 + 1, so four standard
    errors of the mean are 4 (γ/2 + 1)/200. Catches: a factor that is the wrong way up."""
    rng, rounds = random.Random(1), 40_000
    played = [_played(alpha, gamma, rng) for _ in range(rounds)]
    drafted, tokens = (sum(column) for column in zip(*played, strict=True))
    near = partial(pytest.approx, abs=4 * (gamma / 2 + 1) / 200)
    assert tokens / rounds == near(tokens_per_pass(alpha, gamma))
    assert tokens / (rounds + cost * drafted) == near(speedup(alpha, gamma, cost))
    done = rounds * (gamma + 1) + cost * drafted  # operations, with ĉ in the place of c
    assert done / tokens == near(theory.operations(alpha, gamma, cost))


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
    assert theory.tokens_per_pass_by_position([alpha] * gamma) == pytest.approx(expected, rel=1e-12)


def test_the_acceptance_rate_is_how_often_the_coin_accepts() -> None:
    """Against the definition: draw x from q, accept with min(1, p/q), enumerated in numpy; and against total
    variation. Catches: a rate that weighs tokens by p, or sums over positions instead of averaging."""
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(7), 20), rng.dirichlet(np.ones(7), 20)
    coins = (q * np.minimum(1.0, p / q)).sum(1).mean()
    assert theory.acceptance_rate(p.tolist(), q.tolist()) == pytest.approx(coins, abs=1e-12)
    assert theory.acceptance_rate(p, q) == pytest.approx(1 - 0.5 * np.abs(p - q).sum(1).mean(), abs=1e-12)
    assert theory.acceptance_rate([[0.5, 0.3, 0.2]], [[0.2, 0.3, 0.5]]) == pytest.approx(0.7)
    assert theory.acceptance_rate([[1.0, 0.0]], [[0.0, 1.0]]) == 0.0
    assert theory.acceptance_rate([[0.4, 0.6]], [[0.4, 0.6]]) == 1.0


def test_rates_by_position_are_enumerated() -> None:
    """All 2^γ outcomes of independent coins, one rate each. Catches: unconditional rates multiplied again."""
    rng = random.Random(5)
    for gamma in range(7):
        rates = [rng.random() for _ in range(gamma)]
        expected = 0.0
        for outcome in itertools.product((True, False), repeat=gamma):
            chance = math.prod(rate if kept else 1 - rate for rate, kept in zip(rates, outcome, strict=True))
            expected += chance * (1 + len(list(itertools.takewhile(bool, outcome))))
        assert theory.tokens_per_pass_by_position(rates) == pytest.approx(expected, abs=1e-12)


def test_a_trees_tokens_are_those_of_the_walk_down() -> None:
    """Against the walk itself, as a recursion from the root: the k-th child is the accepted one with rates[k], else
    the round ends. Random trees of up to 12 nodes, in any order. Catches: ranks counted per level, not per family."""
    rng = random.Random(7)
    for _ in range(200):
        parents = [rng.randrange(-1, node) for node in range(rng.randrange(13))]
        rates = sorted((rng.random() for _ in range(13)), reverse=True)
        rates = [rate / sum(rates) * rng.random() for rate in rates]

        def walk(node: int, parents: list[int] = parents, rates: list[float] = rates) -> float:
            children = [child for child, parent in enumerate(parents) if parent == node]
            return 1.0 + sum(rate * walk(child) for rate, child in zip(rates, children, strict=False))

        assert theory.tokens_per_tree(parents, rates) == pytest.approx(walk(-1), abs=1e-12)
    chain = theory.tokens_per_tree(range(-1, 5), [0.8])
    assert chain == pytest.approx(tokens_per_pass(0.8, 6))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("alpha", RATES)
def test_the_best_draft_length_beats_every_other(alpha: float, cost: float) -> None:
    """Brute force over the closed form in exact order of γ; and Corollary 3.9. Catches: a search that stops at a local
    step, and drafting where α ≤ c."""
    best = theory.best_draft_length(alpha, cost)
    closed = [
        (1 - alpha ** (g + 1)) / ((1 - alpha) * (g * cost + 1)) for g in range(theory.MAX_DRAFT_LENGTH + 1)
    ]
    assert closed[best] >= max(closed) - 1e-12
    assert all(value < closed[best] + 1e-12 for value in closed[:best])
    assert (best == 0) == (alpha <= cost)
    assert closed[best] >= max(1.0, (1 + alpha) / (1 + cost)) - 1e-12
    assert theory.best_draft_length(alpha, cost, most=3) <= 3


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("gamma", [0, 1, 4, 9])
@pytest.mark.parametrize("gain", [0.5, 1.0, 1.7, 2.8, 6.0])
def test_the_acceptance_that_a_speedup_needs_is_the_first_that_gives_it(
    gain: float, gamma: int, cost: float
) -> None:
    """Against the roots of the polynomial 1 + α + … + α^γ = gain (1 + γc). Catches: a search that ends beside the
    root, and an α named for what no α gives."""
    wanted = gain * (1 + gamma * cost)
    roots = np.roots([1.0] * gamma + [1.0 - wanted])
    real = [root.real for root in roots if abs(root.imag) < 1e-9 and -1e-9 <= root.real <= 1 + 1e-9]
    expected = 0.0 if wanted <= 1 else min(real) if real else math.inf
    assert theory.acceptance_needed(gain, gamma, cost) == pytest.approx(expected, abs=1e-9)


def test_the_oracle_is_played_and_bounds_every_draft_length() -> None:
    """The oracle drafts exactly what is accepted, 1/(1 − α) tokens per pass; for α up to 0.95 and c up to 0.1 it
    wins up to about 60% over the best fixed γ (section 3.5). Catches: an oracle whose drafting is free."""
    rng, rounds = random.Random(2), 40_000
    accepted = [0] * rounds
    for index in range(rounds):
        while rng.random() < 0.8:
            accepted[index] += 1
    committed = sum(accepted) + rounds
    assert committed / rounds == pytest.approx(1 / (1 - 0.8), abs=0.1)  # σ = 4.5, 4σ/200
    assert committed / (rounds + 0.1 * sum(accepted)) == pytest.approx(
        theory.oracle_speedup(0.8, 0.1), abs=0.06
    )
    gains = {}
    for alpha, cost in itertools.product(RATES, COSTS):
        best = speedup(alpha, theory.best_draft_length(alpha, cost), cost)
        gains[alpha, cost] = theory.oracle_speedup(alpha, cost) / best
        assert gains[alpha, cost] >= 1 - 1e-12
    assert 1.5 < max(gain for (alpha, cost), gain in gains.items() if alpha <= 0.95 and cost <= 0.1) < 1.6
    assert theory.oracle_speedup(1.0, 0.0) == math.inf
    assert theory.oracle_speedup(0.5, 2.0) == 1.0  # a draft slower than its target is left alone


def test_a_curve_is_read_on_lines_and_beyond_its_end() -> None:
    """Against numpy's interpolation inside, by hand outside. Catches: a curve whose last width is taken for all wider
    ones, which makes huge trees look free."""
    curve = {1: 1.0, 2: 1.1, 5: 1.4, 9: 3.0}
    for tokens in range(1, 10):
        assert theory.pass_time(curve, tokens) == pytest.approx(
            np.interp(tokens, [1, 2, 5, 9], [1.0, 1.1, 1.4, 3.0])
        )
    assert theory.pass_time(curve, 19) == pytest.approx(3.0 + 10 * 0.4)
    assert theory.pass_time([2.0, 3.0], 4) == pytest.approx(5.0)
    assert theory.pass_time([2.0, 1.0], 9) == 1.0  # noise at the end must not make wide passes free
    assert theory.pass_time({1: 7.0}, 40) == 7.0


def test_the_width_aware_speedup() -> None:
    """On a flat curve it is Theorem 3.8; else by hand. Catches: T(γ) in the place of T(γ + 1)."""
    for alpha, gamma, cost in itertools.product((0.3, 0.8), (0, 1, 5), (0.0, 0.2)):
        flat = theory.speedup_on([3.0], tokens_per_pass(alpha, gamma), gamma, 3.0 * cost)
        assert flat == pytest.approx(speedup(alpha, gamma, cost))
    curve = [10.0, 11.0, 13.0, 16.0]
    assert theory.speedup_on(curve, 2.5, 3, 2.0, overhead=1.0) == pytest.approx(25 / (6 + 16 + 1))
    assert theory.speedup_on(curve, 2.5, 1, 2.0, nodes=2) == pytest.approx(25 / (2 + 13))
    assert theory.overlapped_time(4, 0.25, 1.5) == 1.5
    assert theory.overlapped_time(4, 0.5, 1.5) == 2.0


@pytest.mark.parametrize(
    "values",
    [
        (-0.1, 4, 0.1),
        (1.1, 4, 0.1),
        (math.nan, 4, 0.1),
        ("0.5", 4, 0.1),
        (True, 4, 0.1),
        (0.5, -1, 0.1),
        (0.5, 2.5, 0.1),
        (0.5, None, 0.1),
        (0.5, 4, -0.1),
        (0.5, 4, math.nan),
        (0.5, 4, math.inf),
    ],
)
def test_a_value_out_of_range_is_refused(values: tuple[float, int, float]) -> None:
    """Catches: a curve through nonsense, and a TypeError that reaches a page."""
    with pytest.raises(sd.SettingsError):
        speedup(*values)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.acceptance_rate([], []),
        lambda: theory.acceptance_rate([[1.0]], [[1.0], [1.0]]),
        lambda: theory.acceptance_rate([[0.5, 0.5]], [[1.0]]),
        lambda: theory.acceptance_rate([[0.5, 0.6]], [[0.5, 0.5]]),
        lambda: theory.acceptance_rate([[1.5, -0.5]], [[0.5, 0.5]]),
        lambda: theory.tokens_per_pass_by_position([0.5, 1.5]),
        lambda: theory.tokens_per_tree([-1, -1], [0.9]),
        lambda: theory.tokens_per_tree([-1, -1], [0.9, 0.2]),
        lambda: theory.tokens_per_tree([0], [0.9]),
        lambda: theory.tokens_per_tree([-2], [0.9]),
        lambda: theory.best_draft_length(0.5, 0.1, most=-1),
        lambda: theory.oracle_speedup(0.5, -1.0),
        lambda: theory.pass_time([], 1),
        lambda: theory.pass_time({2: 1.0}, 1),
        lambda: theory.pass_time([1.0, 0.0], 1),
        lambda: theory.pass_time([1.0], 0),
        lambda: theory.speedup_on([1.0], 6.0, 4, 0.1),
        lambda: theory.speedup_on([1.0], 0.5, 4, 0.1),
        lambda: theory.speedup_on([1.0], 2.0, 4, 0.1, overhead=-1.0),
        lambda: theory.overlapped_time(4, -0.1, 1.0),
        lambda: theory.acceptance_needed(0.0, 4, 0.1),
        lambda: theory.acceptance_needed(2.0, -1, 0.1),
    ],
)
def test_each_formula_refuses_nonsense_in_one_sentence(call: Callable[[], float]) -> None:
    """Catches: an argument that nobody checks; most give a number that looks right."""
    with pytest.raises(sd.SettingsError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text


@pytest.mark.parametrize(("alpha", "gamma", "cost"), [(0.8, 5, 0.05), (0.3, 1, 0.4), (0.95, 9, 0.0)])
def test_the_implied_cost_is_that_of_the_formula_which_gave_the_speedup(
    alpha: float, gamma: int, cost: float
) -> None:
    expected = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert theory.implied_cost(expected / (gamma * cost + 1), expected, gamma) == pytest.approx(
        cost, abs=1e-12
    )
    for wrong in ((0.0, 2.0, 4), (1.5, 0.9, 4), (1.5, 2.0, 0), (math.nan, 2.0, 4)):
        with pytest.raises(sd.SettingsError):
            theory.implied_cost(*wrong)
