"""Stateless random numbers: each is keyed by (seed, stream, round, node).

A counter-based generator (Philox) gives a draw for every node, reached or not, without a state that one rule could
advance further than another. So two rules judge the same drafts with the same coins until their texts diverge.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Stream(IntEnum):
    """What a random number is for; the streams are independent."""

    DRAFTING = 0  # draws a proposed token from q
    COINS = 1  # accepts or rejects a proposed token
    CORRECTION = 2  # draws the corrected or bonus token


def uniforms(seed: int, stream: Stream, round_index: int, count: int) -> NDArray[np.float64]:
    """The first `count` numbers of a round's stream, float64 in [0, 1); number i belongs to node i."""
    counter = (int(stream) << 64) | round_index  # leaves 2^64 blocks of four numbers to every round
    generator = np.random.Philox(key=seed, counter=counter << 64)
    return np.random.Generator(generator).random(count)
