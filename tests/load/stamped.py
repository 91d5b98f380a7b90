"""Decoders whose events say when they were sent, so that it can be measured how late they arrive.

`use(computing)` has the real models compute; `use(waiting)` has decoders that wait instead, so that more of them fit on
a machine than it has cores. Both stamp a round's `start_s` with the time of day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any, cast

from app.decoding import loaded
from app.decoding.api import Ask, Card, Event, IsCancelled, OnPlace, unplaced
from app.decoding.in_child import child, local
from app.decoding.loaded import Loaded
from app.decoding.models import ModelChoice
from specdec_core.engine.events import Ended, Step
from specdec_core.models.generation import Generation
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.schema import ModelInfo
from specdec_core.settings import Settings

ROUND_S = 0.02


class Computing(Loaded):
    """The real models."""

    def race(
        self,
        prompt: Prompt,
        lanes: Sequence[Settings],
        *,
        cancelled: IsCancelled,
        ask: Ask,
        on_place: OnPlace = unplaced,
    ) -> Iterator[Event]:
        """As always, with the stamp."""
        for event in Loaded.race(self, prompt, lanes, cancelled=cancelled, ask=ask):
            if isinstance(event, Step):
                event.start_s = time.time()
            yield event


@dataclass(frozen=True, slots=True)
class Waiting:
    """A `Family` without models, as far as races go."""

    card: Card

    def race(
        self,
        prompt: Prompt,
        lanes: Sequence[Settings],
        *,
        cancelled: IsCancelled,
        ask: Ask,
        on_place: OnPlace = unplaced,
    ) -> Iterator[Event]:
        """One round every `ROUND_S` for each token wanted."""
        for lane, settings in enumerate(lanes):
            for at in range(settings.max_new_tokens):
                time.sleep(ROUND_S)
                now = time.time()
                yield Step(lane, at, 0.0, [1], ["a"], ["plain"], [], [], [], at + 1, start_s=now)
            yield Ended(lane, "length")


def computing(choice: ModelChoice) -> Loaded:
    """A choice's models."""
    return Computing(loaded.load(choice).models)


def waiting(_choice: ModelChoice) -> Loaded:
    """Nothing in their place."""
    nothing = ModelInfo("waiting", 1)
    card = Card(nothing, None, "cpu", "a machine that waits", False, {}, {}, None, Generation())
    return cast(Loaded, Waiting(card))


def _compute(pipe: Connection) -> None:
    _serve(computing, pipe)


def _wait(pipe: Connection) -> None:
    _serve(waiting, pipe)


def _serve(load_one: Callable[[ModelChoice], Loaded], pipe: Connection) -> None:
    module: Any = child
    module.load = load_one
    child.main(pipe)


def use(load_one: Callable[[ModelChoice], Loaded]) -> None:
    """From now on, decoders that this process starts are of this kind, replicas too."""
    from app.decoding.on_ray import replica

    class Other(replica.Replica):
        load = staticmethod(load_one)  # type: ignore[assignment]

    modules: Any = local, replica
    modules[0].child = SimpleNamespace(main=_wait if load_one is waiting else _compute)
    modules[1].Replica = Other
