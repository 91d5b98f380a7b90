"""Where a sampled run of the live page's engine parts from the decoder's: is it a tie?

Both compute probabilities that differ in the seventh digit, so a random number at an edge, between two tokens of a
distribution or at a threshold, decides otherwise there. It is a tie if the decoder's number, moved by less than 1e-4,
makes its whole run the engine's.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

import specdec_core as sd
from specdec_core.foundations import randomness
from specdec_core.foundations.randomness import Stream
from tests.live.engine import rounds

FIRST, MOST = 1e-7, 1.001e-4  # that a number is moved
STEPS = 40  # of a bisection: a token between the two may be very unlikely
Moved = dict[tuple[int, int], float]  # by stream and round


class Moving:
    """The decoder's random numbers, some rounds' moved by a little."""

    def __init__(self) -> None:
        self.moved: Moved = {}
        self._drawn = randomness._generators.drawn
        vars(randomness._generators)["drawn"] = self

    def stop(self) -> None:
        """Numbers are drawn as before."""
        del vars(randomness._generators)["drawn"]
        randomness._generators.ahead.clear()

    def __call__(self, seed: int, stream: int, round_index: int, count: int) -> NDArray[np.float64]:
        numbers = self._drawn(seed, stream, round_index, count)
        return np.clip(numbers + self.moved.get((stream, round_index), 0.0), 0.0, np.nextafter(1.0, 0.0))

    def decode(
        self, models: sd.Models, text: str, settings: sd.Settings, moved: Moved | None = None
    ) -> dict[str, Any]:
        """The record of the run with these rounds' numbers moved."""
        self.moved = moved or {}
        randomness._generators.ahead.clear()
        wanted = settings.but(record="tokens") if settings.temperature else settings
        record: dict[str, Any] = json.loads(sd.decode(models, text, wanted).to_json())
        return record


def parted(one: list[Any], other: list[Any]) -> tuple[int, Stream] | None:
    """The first round in which they differ, and whose random numbers made what differs there; None if they do not."""
    for at in range(max(len(one), len(other))):
        rows = [*one[at : at + 1], *other[at : at + 1]]
        if len(rows) < 2 or rows[0][:2] != rows[1][:2]:
            return at, Stream.DRAFTING
        if rows[0] != rows[1]:
            return at, Stream.COINS if rows[0][2] != rows[1][2] else Stream.CORRECTION
    return None


def edges(
    models: sd.Models, text: str, settings: sd.Settings, engine: dict[str, Any], moving: Moving
) -> Moved | None:
    """By how much which numbers are moved for the decoder's run to be the engine's; {} if they are the same, None if
    nothing below 1e-4 helps."""
    wanted, moved = rounds(engine), Moved()
    while (
        place := parted(found := rounds(moving.decode(models, text, settings, moved)), wanted)
    ) is not None:
        at, stream = place
        later = _ahead(found, wanted, at)
        near, far = 0.0, float("inf")
        for _ in range(STEPS):  # the larger the number, the later the token, and the fewer guesses pass
            size = (near + far) / 2 if far <= MOST else max(FIRST, 10 * near)
            if size > MOST:
                return None
            tried = moved | {(int(stream), at): size if later else -size}
            found = rounds(moving.decode(models, text, settings, tried))
            if (new := parted(found, wanted)) is None or new > place:
                moved = tried
                break
            near, far = (size, far) if _ahead(found, wanted, at) == later else (near, size)
        else:
            return None
    return moved


def _ahead(found: list[Any], wanted: list[Any], at: int) -> bool:
    """Whether a larger random number brings this round closer to the wanted one: to a later token, or a rejection."""
    (tokens, _, verdicts, committed, _), (others, _, judged, added, _) = found[at], wanted[at]
    if tokens != others:
        return next((one < other for one, other in zip(tokens, others, strict=False) if one != other), False)
    if verdicts != judged:
        return bool(
            next(one == "accepted" for one, other in zip(verdicts, judged, strict=True) if one != other)
        )
    return bool(committed["token"] < added["token"])
