"""Stateless random numbers: each is keyed by (seed, stream, round, node).

A counter-based generator (Philox) gives a draw for every node, reached or not, without a state that one rule could
advance further than another. So two rules judge the same drafts with the same coins until their texts diverge.
"""

from __future__ import annotations

import threading
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_WORD = (1 << 64) - 1


class Stream(IntEnum):
    """What a random number is for; the streams are independent."""

    DRAFTING = 0  # draws a proposed token from q
    COINS = 1  # accepts or rejects a proposed token
    CORRECTION = 2  # draws the corrected or bonus token


class _Generators(threading.local):
    """One generator per thread, moved to where each call's numbers begin: five times cheaper than a new one."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)
        self.generator = np.random.Generator(self.philox)
        self.state = self.philox.state  # with its buffer empty


_generators = _Generators()


def uniforms(seed: int, stream: Stream, round_index: int, count: int) -> NDArray[np.float64]:
    """The first `count` numbers of a round's stream, float64 in [0, 1); number i belongs to node i."""
    own = _generators
    state = own.state["state"]
    state["counter"][:] = (
        0,
        round_index,
        int(stream),
        0,
    )  # leaves 2^64 blocks of four numbers to every round
    state["key"][:] = (seed & _WORD, seed >> 64)
    own.philox.state = own.state
    return own.generator.random(count)
