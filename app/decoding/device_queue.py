"""The queue for a device, or for several alike."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean

from app.monitoring import figures


class Cancelled(Exception):
    """A job in the queue has given up."""


@dataclass(eq=False, slots=True)
class QueueEntry:
    """One place in the queue; `owner` is None for a job that nobody owns."""

    owner: str | None = None
    earlier: int = 0  # of the same owner, when it was drawn
    since: float = 0.0  # when it got the device


class DeviceQueue:
    """First come, first served, one turn per owner: a second ticket waits behind everybody's first.

    The first `places` tickets hold a device each.
    """

    def __init__(self, places: int = 1) -> None:
        self._places = places
        self._tickets: list[QueueEntry] = []
        self._moved = threading.Condition()
        self._took: deque[float] = deque(maxlen=20)  # seconds of the last turns

    @contextmanager
    def turn(
        self, left: Callable[[], bool], on_place: Callable[[int], None], owner: str | None = None
    ) -> Iterator[QueueEntry]:
        """Hold a device; the value is the ticket. While none is free, `on_place` receives how many have to finish
        first; `left` says whether to give up."""
        ticket, place, drawn = QueueEntry(owner), 0, time.monotonic()
        try:
            with self._moved:
                self._draw(ticket)
                while (ahead := self._tickets.index(ticket) - self._places + 1) > 0:
                    if left():
                        raise Cancelled
                    if ahead != place:
                        place = ahead
                        on_place(place)
                    self._moved.wait(timeout=0.1)
                ticket.since = time.monotonic()
            figures.waited.observe(ticket.since - drawn)
            yield ticket
        finally:
            with self._moved:
                self._leave(ticket)

    def wait_s(self, place: int) -> float | None:
        """Expected seconds until a device is free for whoever waits for `place` others to finish, by the last turns;
        None before the first."""
        with self._moved:
            holders = self._tickets[: self._places]
            if not self._took or not holders:
                return None
            usual, now = mean(self._took), time.monotonic()
            running = min(max(0.0, usual - (now - one.since)) if one.since else usual for one in holders)
            return running + usual * (place - 1) / self._places

    @contextmanager
    def away(self, ticket: QueueEntry, left: Callable[[], bool]) -> Iterator[None]:
        """Let the next one have the device meanwhile, then wait right after the holders, until `left` says to give up.

        After giving up it returns without the device, and the caller must not compute.
        """
        with self._moved:
            self._leave(ticket)
        try:
            yield
        finally:
            with self._moved:
                self._tickets.insert(self._places, ticket)  # earlier if a device is free
                while self._tickets.index(ticket) >= self._places and not left():
                    self._moved.wait(timeout=0.1)
                ticket.since = time.monotonic()

    def _leave(self, ticket: QueueEntry) -> None:
        self._tickets.remove(ticket)
        if ticket.since:
            self._took.append(time.monotonic() - ticket.since)
            figures.held.observe(self._took[-1])
            ticket.since = 0.0
        self._moved.notify_all()

    def _draw(self, ticket: QueueEntry) -> None:
        """Stand behind everybody who has at most as many tickets ahead of them; never before a holder."""
        if ticket.owner is not None:
            ticket.earlier = sum(other.owner == ticket.owner for other in self._tickets)
        at = len(self._tickets)
        while at > self._places and self._tickets[at - 1].earlier > ticket.earlier:
            at -= 1
        self._tickets.insert(at, ticket)
