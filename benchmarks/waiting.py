"""A decoder that waits instead of computing, so that more of them fit on a machine than it has cores.

It is for measuring what is around decoders: how late their events are, and how many runs several of them finish.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, cast

from app.decoding import child, local
from app.decoding.api import Ask, Cancelled, Card, Event
from app.decoding.loaded import Loaded
from app.decoding.models import Choice
from specdec_core.chat import Prompt
from specdec_core.engine.events import Ended, Step
from specdec_core.models.generation import Generation
from specdec_core.record.schema import ModelInfo
from specdec_core.settings import Settings

ROUND_S = 0.02


@dataclass(frozen=True, slots=True)
class Waiting:
    """A `Family`, as far as races go."""

    card: Card

    def race(
        self, prompt: Prompt, lanes: Sequence[Settings], *, cancelled: Cancelled, ask: Ask
    ) -> Iterator[Event]:
        """One round every `ROUND_S` for each token wanted; `clock_s` is the time of day at which it was sent."""
        for lane, settings in enumerate(lanes):
            for number in range(settings.max_new_tokens):
                time.sleep(ROUND_S)
                yield Step(lane, number, time.time(), [1], ["a"], ["plain"], [], [], [], number + 1)
            yield Ended(lane, "length")


def load(_choice: Choice) -> Loaded:
    """In place of a choice's models."""
    nothing = ModelInfo("waiting", 1, "none")
    card = Card(nothing, None, "cpu", "a machine that waits", False, {}, None, Generation())
    return cast(Loaded, Waiting(card))


def main(pipe: Connection) -> None:
    """The child process of a local decoder that waits."""
    child.load = load
    child.main(pipe)


def use() -> None:
    """From now on, decoders that this process starts wait."""
    local.child = sys.modules[__name__]


def use_in_replicas() -> None:
    """The same for replicas."""
    from app.decoding import replica

    class WaitingReplica(replica.Replica):
        load = staticmethod(load)

    replicas: Any = replica
    replicas.Replica = WaitingReplica
