"""What benchmarks/quality.py counts, on small distributions, and its rounding to Q8_0."""

from __future__ import annotations

import math

import pytest
import torch
from gguf import GGMLQuantizationType, quants

from benchmarks.quality import Sums, rounded


def test_rounding_is_that_of_q8_0_files() -> None:
    """Catches: a scale that is not in float16, groups of another size, or a level too few."""
    values = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    values[2, :32] = 0.0
    kind = GGMLQuantizationType.Q8_0
    written = quants.dequantize(quants.quantize(values.numpy(), kind), kind)
    assert torch.equal(rounded(values), torch.from_numpy(written))


def test_figures_are_means_over_places() -> None:
    """Catches: a divergence the wrong way round, a mean over answers, or a ratio of perplexities upside down."""
    exact = torch.tensor([[0.5, 0.5 - 1e-6, 1e-6], [0.9, 0.1 - 1e-6, 1e-6], [0.2, 0.7, 0.1]]).log()
    found = torch.tensor([[0.25, 0.75 - 1e-6, 1e-6], [0.9, 0.1 - 1e-6, 1e-6], [0.2, 0.7, 0.1]]).log()
    sums = Sums()
    sums.add(exact[:1], found[:1], [0])
    sums.add(exact[1:], found[1:], [0, 1])
    same, divergence, perplexity = sums.figures
    assert same == pytest.approx(2 / 3)
    assert divergence == pytest.approx((0.5 * math.log(2) + 0.5 * math.log(2 / 3)) / 3, abs=1e-5)
    assert perplexity == pytest.approx(2 ** (1 / 3), rel=1e-5)
