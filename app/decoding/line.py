"""The queue for a device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean

from app.monitoring import figures


class Left(Exception):
    """A job in the queue has given up."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One place in the queue; `owner` is None for a job that nobody owns."""

    owner: str | None = None
    earlier: int = 0  # of the same owner, when it was drawn
    since: float = 0.0  # when it got the device


class Line:
    """First come, first served, one turn per owner: a second ticket waits behind everybody's first."""

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []
        self._moved = threading.Condition()
        self._took: deque[float] = deque(maxlen=20)  # seconds of the last turns

    @contextmanager
    def turn(
        self, left: Callable[[], bool], on_place: Callable[[int], None], owner: str | None = None
    ) -> Iterator[Ticket]:
        """Hold the device; the value is the ticket. While others are ahead, `on_place` receives their number; `left`
        says whether to give up."""
        ticket, place, drawn = Ticket(owner), 0, time.monotonic()
        try:
            with self._moved:
                self._draw(ticket)
                while ahead := self._tickets.index(ticket):
                    if left():
                        raise Left
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
        """Expected seconds until the device is free for whoever has `place` others ahead, by the last turns; None
        before the first."""
        with self._moved:
            if not self._took or not self._tickets:
                return None
            usual, since = mean(self._took), self._tickets[0].since
            running = max(0.0, usual - (time.monotonic() - since)) if since else usual
            return running + usual * (place - 1)

    @contextmanager
    def away(self, ticket: Ticket, left: Callable[[], bool]) -> Iterator[None]:
        """Let the next one have the device meanwhile, then wait right after its holder, until `left` says to give up.

        After giving up it returns without the device, and the caller must not compute.
        """
        with self._moved:
            self._leave(ticket)
        try:
            yield
        finally:
            with self._moved:
                self._tickets.insert(1, ticket)  # first if the queue is empty
                while self._tickets.index(ticket) and not left():
                    self._moved.wait(timeout=0.1)
                ticket.since = time.monotonic()

    def _leave(self, ticket: Ticket) -> None:
        self._tickets.remove(ticket)
        if ticket.since:
            self._took.append(time.monotonic() - ticket.since)
            figures.held.observe(self._took[-1])
            ticket.since = 0.0
        self._moved.notify_all()

    def _draw(self, ticket: Ticket) -> None:
        """Stand behind everybody who has at most as many tickets ahead of them; never before the holder."""
        if ticket.owner is not None:
            ticket.earlier = sum(other.owner == ticket.owner for other in self._tickets)
        at = len(self._tickets)
        while at > 1 and self._tickets[at - 1].earlier > ticket.earlier:
            at -= 1
        self._tickets.insert(at, ticket)
