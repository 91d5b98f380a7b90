"""Several lanes on one prompt, each on its own clock; the lane that is behind always computes next."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from specdec_core.foundations.errors import SettingsError
from specdec_core.models.bundle import Models
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.schema import Race
from specdec_core.settings import MAX_LANES, Settings

from .decode import stream
from .events import Ended, Event, Finished, Step
from .plan import Ask, listed


def race(
    models: Models,
    prompt: Prompt,
    lanes: Sequence[Settings],
    *,
    cancelled: Callable[[], bool] = lambda: False,
    ask: Ask | None = None,
) -> Iterator[Event]:
    """Decode `prompt` once per entry of `lanes`; events carry their lane. `cancelled` and `ask` as for `stream`.

    A lane's clock advances only while that lane computes, so each has the device to itself; because the lane whose
    clock is behind goes next, the lanes appear side by side in real time.

    Raises:
        SpecdecError: one sentence, before the first event.
    """
    listed("lanes of a race", lanes)
    if not 1 <= len(lanes) <= MAX_LANES:
        raise SettingsError(f"A race has 1 to {MAX_LANES} lanes, got {len(lanes)}.")
    of = Race(secrets.token_urlsafe(12), 0, len(lanes)) if len(lanes) > 1 else None
    streams = [
        stream(models, prompt, settings, lane=lane, cancelled=cancelled, ask=ask)
        for lane, settings in enumerate(lanes)
    ]
    return _interleave(streams, of)


def _interleave(streams: list[Iterator[Event]], of: Race | None) -> Iterator[Event]:
    for events in streams:
        yield next(events)  # Started: prefill of each lane, before any clock runs
    clocks = dict.fromkeys(range(len(streams)), 0.0)
    unwritten = []
    while clocks:
        lane = min(clocks, key=clocks.__getitem__)
        event = next(streams[lane])
        yield event
        if isinstance(event, Step):
            clocks[lane] = event.clock_s
        elif isinstance(event, Ended):
            del clocks[lane]
            if event.end == "cancelled":  # all lanes stop computing before any record is written
                unwritten.append(lane)
            else:
                yield _of_race(next(streams[lane]), of)
    for lane in unwritten:
        yield _of_race(next(streams[lane]), of)


def _of_race(event: Event, race: Race | None) -> Event:
    """The lane's end, its record marked as one of this race's."""
    if isinstance(event, Finished) and race is not None:
        event.trace.header.race = replace(race, lane=event.lane)
    return event
