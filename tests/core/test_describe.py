"""What the recorder writes down, from tensors: leading candidates and entropies, against slower ways to the same."""

from __future__ import annotations

import pytest
import torch

from specdec_core.columns.probs import largest, spread
from specdec_core.record.schema import TOP


@pytest.mark.parametrize("width", [3, TOP, 320, 352, 4096, 4099, 49_152])
@pytest.mark.parametrize("peaks", ["anywhere", "in one place", "at the end"])
def test_the_leading_candidates_are_those_of_a_search_of_the_whole_row(width: int, peaks: str) -> None:
    """Catches: a candidate missed because its block has several, or because no block holds the row's last ones."""
    source = torch.Generator().manual_seed(width)
    probs = torch.rand(5, width, generator=source)
    start = {"anywhere": None, "in one place": width // 2, "at the end": max(0, width - 12)}[peaks]
    if start is not None:
        probs[:, start : start + 12] += 1.0
    leading, places = largest(probs)
    expected = probs.topk(min(TOP, width), -1)
    assert torch.equal(leading, expected.values)
    assert torch.equal(probs.gather(1, places), leading)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("absent", [0, 7, 63])
def test_the_entropy_is_minus_the_sum_of_p_log_p(temperature: float, absent: int) -> None:
    """In float64, with logits of −∞ for some ids. Catches: 0 × −∞, a temperature forgotten."""
    logits = torch.randn(6, 64, generator=torch.Generator().manual_seed(absent)) * 4
    logits[::2, :absent] = -torch.inf
    probs = torch.softmax(logits / temperature, -1)
    entropy, largest = spread(probs, logits - logits.amax(-1, keepdim=True), logits.argmax(-1), temperature)
    exact = torch.softmax(logits.double() / temperature, -1)
    assert torch.allclose(torch.tensor(entropy).double(), torch.special.entr(exact).sum(-1), atol=1e-5)
    assert torch.allclose(torch.tensor(largest).double(), exact.amax(-1), atol=1e-6)
