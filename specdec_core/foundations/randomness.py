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


MAX_ROUNDS_AHEAD = 32  # rounds drawn at once
MAX_NUMBERS_AHEAD = 128  # numbers of a round, beyond which nothing is drawn ahead
MAX_STREAMS = 16  # streams with numbers drawn ahead, in one thread


class _Generators(threading.local):
    """One generator per thread, moved to where a round's numbers begin: five times cheaper than a new one.

    Rounds follow each other, so those after the one asked for are drawn with it: alone, between two passes of a model,
    which leave nothing in the CPU's caches, moving the generator takes six times as long.
    """

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)
        self.generator = np.random.Generator(self.philox)
        self.state = self.philox.state  # with its buffer empty
        # of the latest streams: the first round drawn, and its and the following rounds' numbers
        self.ahead: dict[tuple[int, int], tuple[int, list[NDArray[np.float64]]]] = {}

    def drawn(self, seed: int, stream: int, round_index: int, count: int) -> NDArray[np.float64]:
        """The first `count` numbers of a round's stream."""
        state = self.state["state"]
        state["counter"][:] = (0, round_index, stream, 0)  # leaves 2^64 blocks of four numbers to every round
        state["key"][:] = (seed & _WORD, seed >> 64)
        self.philox.state = self.state
        return self.generator.random(count)


_generators = _Generators()


def uniforms(seed: int, stream: Stream, round_index: int, count: int) -> NDArray[np.float64]:
    """The first `count` numbers of a round's stream, float64 in [0, 1); number i belongs to node i. Not to be written
    to."""
    own, key = _generators, (seed, int(stream))
    first, rows = own.ahead.get(key, (0, []))
    place = round_index - first
    if 0 <= place < len(rows) and count <= len(rows[place]):
        return rows[place][:count]
    if count > MAX_NUMBERS_AHEAD:
        return own.drawn(seed, key[1], round_index, count)
    # twice as many as before where rounds go on; the first draws no other's
    rounds, width = 1, count
    if 0 < place <= 2 * len(rows):
        rounds, width = min(2 * len(rows), MAX_ROUNDS_AHEAD), max(count, len(rows[0]))
    if len(own.ahead) >= MAX_STREAMS and key not in own.ahead:
        own.ahead.clear()
    rows = [own.drawn(seed, key[1], round_index + further, width) for further in range(rounds)]
    own.ahead[key] = round_index, rows
    return rows[0][:count]
