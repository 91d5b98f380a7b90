"""Is a weight moved as Muon's authors would move it? Against torch's own optimiser."""

from __future__ import annotations

import pytest
import torch

from specdec_measure.optimisation import Muon, orthogonal


@pytest.mark.parametrize("shape", [(24, 60), (60, 24), (32, 32)])
def test_muon_is_torch_s_but_for_its_bfloat16(shape: tuple[int, int]) -> None:
    """Catches: the wrong side's factor, momentum without Nesterov's step, decay after the update."""
    chance = torch.Generator().manual_seed(0)
    first = torch.randn(shape, generator=chance)
    ours, theirs = torch.nn.Parameter(first.clone()), torch.nn.Parameter(first.clone())
    rate = 0.1
    pair = Muon([ours], rate), torch.optim.Muon([theirs], lr=rate, weight_decay=0.05, momentum=0.95)
    for _ in range(4):
        given = torch.randn(shape, generator=chance)
        for weight, optimiser in zip((ours, theirs), pair, strict=True):
            weight.grad = given.clone()
            optimiser.step()
    moved = (theirs - first).norm()
    assert moved > 1 and (ours - theirs).norm() < 0.02 * moved


def test_an_update_s_singular_values_are_made_alike() -> None:
    """Catches: iterations that leave a large direction large."""
    update = orthogonal(torch.diag(torch.tensor([9.0, 1.0, 0.5, 0.2])) @ torch.eye(4, 9))
    values = torch.linalg.svdvals(update)
    assert values.min() > 0.4 and values.max() < 1.6
