"""The distribution that is sampled is transformers' own, and the sampler draws from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specdec_core.sampling import Warp, draw, residual

WIDTH = 50
warps = st.builds(Warp, st.floats(0.05, 5.0), st.integers(0, WIDTH + 5), st.floats(0.01, 1.0))


def _oracle(logits: torch.Tensor, warp: Warp) -> torch.Tensor:
    """The processors `generate` would use, in its order."""
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    scores = TemperatureLogitsWarper(warp.temperature)(ids, logits)
    if warp.top_k:
        scores = TopKLogitsWarper(warp.top_k)(ids, scores)
    if warp.top_p < 1.0:
        scores = TopPLogitsWarper(warp.top_p)(ids, scores)
    return scores.softmax(-1)


def _logits(seed: int, ties: bool) -> torch.Tensor:
    logits = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed)) * 3
    return logits.round() if ties else logits


@settings(max_examples=300, deadline=None, derandomize=True)
@given(warp=warps, seed=st.integers(0, 10_000))
def test_warping_equals_transformers(warp: Warp, seed: int) -> None:
    """Temperature, top-k, top-p on random logits without ties. Tolerance 1e-6, except where the nucleus ends within
    rounding of top_p, where either of two neighbours may be its last token. Catches: another order of the three, or
    a nucleus that is one token short."""
    logits = _logits(seed, ties=False)
    ours, theirs = warp(logits), _oracle(logits, warp)
    ordered = (
        _oracle(logits, Warp(warp.temperature, warp.top_k))
        .sort(-1, descending=True)
        .values.double()
        .cumsum(-1)
    )
    clear = (ordered - warp.top_p).abs().amin(-1) > 1e-5
    assert torch.allclose(ours[clear], theirs[clear], atol=1e-6)
    assert torch.allclose(ours.sum(-1), torch.ones(len(ours)), atol=1e-5)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(warp=warps, seed=st.integers(0, 10_000))
def test_warping_with_ties_keeps_the_same_masses(warp: Warp, seed: int) -> None:
    """Which of several equal tokens ends the nucleus is a matter of sorting; the kept masses are not. Top-k keeps all
    that tie with the k-th, like transformers. Tolerance 1e-6 on the sorted probabilities."""
    logits = _logits(seed, ties=True)
    ours, theirs = warp(logits).sort(-1).values, _oracle(logits, warp).sort(-1).values
    ordered = (
        _oracle(logits, Warp(warp.temperature, warp.top_k))
        .sort(-1, descending=True)
        .values.double()
        .cumsum(-1)
    )
    clear = (ordered - warp.top_p).abs().amin(-1) > 1e-5
    assert torch.allclose(ours[clear], theirs[clear], atol=1e-6)
    if warp.top_p == 1.0:
        assert torch.equal(warp(logits) > 0, _oracle(logits, warp) > 0)


def test_temperature_zero_is_one_hot_at_the_first_best() -> None:
    """Ties go to the lowest id, as `argmax` in `generate` does."""
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0], [-torch.inf, -torch.inf, -5.0, -torch.inf]])
    assert Warp(0.0, top_k=3, top_p=0.1)(logits).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize("warp", [Warp(1.0, top_k=1), Warp(1.0, top_p=1e-9), Warp(1e-4)])
def test_the_narrowest_warps_keep_the_best_token(warp: Warp) -> None:
    """Catches: an empty nucleus, whose probabilities are 0/0."""
    logits = _logits(3, ties=False)
    assert torch.equal(warp(logits), Warp(0.0)(logits))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    weights=st.lists(st.sampled_from([0.0, 0.0, 1e-30, 1e-8, 0.1, 1.0, 3.0]), min_size=1, max_size=12).filter(
        any
    ),
    uniform=st.one_of(st.just(0.0), st.just(1.0 - 2.0**-53), st.floats(0.0, 1.0, exclude_max=True)),
)
def test_a_token_of_probability_zero_is_never_drawn(weights: list[float], uniform: float) -> None:
    """At either end of [0, 1) and beside zeros. Catches: the search's wrong side, an index beyond the vocabulary."""
    token = int(draw(torch.tensor(weights), uniform))
    assert weights[token] > 0.0


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    """20,000 draws against the weights by chi-square; false alarm 1e-4."""
    weights = torch.tensor([0.0, 5.0, 1.0, 0.0, 0.5, 3.5, 0.0])
    numbers = np.random.default_rng(1).random(20_000)
    counts = np.bincount([int(draw(weights, float(number))) for number in numbers], minlength=7)
    kept = weights.numpy() > 0
    assert counts[~kept].sum() == 0
    assert chisquare(counts[kept], weights.numpy()[kept] / 10 * 20_000).pvalue > 1e-4


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_acceptance_and_residual_give_p_back(seed: int) -> None:
    """min(p, q) + (1 − Σ min(p, q)) · residual = p, the identity that makes speculative sampling exact; tolerance
    1e-6."""
    generator = torch.Generator().manual_seed(seed)
    p, q = (torch.randn(2, 20, generator=generator) * 2).softmax(-1)
    shared = torch.minimum(p, q)
    assert torch.allclose(shared + (1 - shared.sum()) * residual(p, q), p, atol=1e-6)


def test_the_residual_of_equal_distributions_is_a_distribution() -> None:
    """A rejection there has probability zero; rounding must not make it 0/0."""
    p = torch.tensor([0.2, 0.8])
    assert torch.equal(residual(p, p), p)
