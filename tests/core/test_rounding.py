"""Sums in a few bits, against the formats' own spacing."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from specdec_lessons.rounding import FORMATS, alone_and_among, most_likely, running_sums


def bfloat16(value: float) -> float:
    """The nearest number that fits the upper half of a float32, ties to even: the format, written out."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return float(struct.unpack("<f", struct.pack("<I", bits >> 16 << 16))[0])


@pytest.mark.parametrize(
    "terms", [[17.25, 0.06, 0.06], [0.06, 0.06, 17.25], [1.0, 1e-3, -1.0], [-3.3, 2.2, 0.7]]
)
def test_each_sum_is_stored_before_the_next_is_added(terms: list[float]) -> None:
    total, expected = 0.0, []
    for term in terms:
        total = bfloat16(total + bfloat16(term))
        expected.append(total)
    assert running_sums(terms, "bfloat16") == expected
    for name, kind in (("float32", np.float32), ("float16", np.float16)):
        sums, at = [], kind(0)
        for term in terms:
            at = kind(at + kind(term))
            sums.append(float(at))
        assert running_sums(terms, name) == sums
    assert set(FORMATS) == {"bfloat16", "float16", "float32"}


def test_the_order_of_adding_matters() -> None:
    # each 0.06 is less than half a step of 0.125
    assert running_sums([17.25, 0.06, 0.06], "bfloat16")[-1] == 17.25
    assert running_sums([0.06, 0.06, 17.25], "bfloat16")[-1] == 17.375


def test_of_equals_the_first_is_taken() -> None:
    assert most_likely([1.0, 3.0, 3.0, 2.0]) == 1
    assert most_likely([0.0, 0.0]) == 0


def test_the_same_sums_alone_and_among_others_are_near() -> None:
    pairs = alone_and_among(50, 256, 6)
    assert len(pairs) == 50 and pairs == alone_and_among(50, 256, 6)
    random = torch.Generator().manual_seed(0)
    states = torch.randn(6, 256, generator=random).double()
    weights = torch.randn(50, 256, generator=random).double()
    exact = (weights @ states[0]).tolist()
    for (alone, among), value in zip(pairs, exact, strict=True):
        assert alone == pytest.approx(value, abs=1e-3) and among == pytest.approx(value, abs=1e-3)
