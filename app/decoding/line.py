"""The queue for a device."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Left(Exception):
    """A job in the queue has given up."""


class Line:
    """First come, first served: one holder at a time."""

    def __init__(self) -> None:
        self._tickets: deque[object] = deque()
        self._moved = threading.Condition()

    @contextmanager
    def turn(self, left: Callable[[], bool], on_place: Callable[[int], None]) -> Iterator[object]:
        """Hold the device; the value is the ticket. While others are ahead, `on_place` receives their number; `left`
        says whether to give up."""
        ticket, place = object(), 0
        try:
            with self._moved:
                self._tickets.append(ticket)
                while ahead := self._tickets.index(ticket):
                    if left():
                        raise Left
                    if ahead != place:
                        place = ahead
                        on_place(place)
                    self._moved.wait(timeout=0.1)
            yield ticket
        finally:
            with self._moved:
                self._tickets.remove(ticket)
                self._moved.notify_all()

    @contextmanager
    def away(self, ticket: object, left: Callable[[], bool]) -> Iterator[None]:
        """Let the next one have the device meanwhile, then wait right after its holder, until `left` says to give up.

        After giving up it returns without the device, and the caller must not compute.
        """
        with self._moved:
            self._tickets.remove(ticket)
            self._moved.notify_all()
        try:
            yield
        finally:
            with self._moved:
                self._tickets.insert(1, ticket)  # first if the queue is empty
                while self._tickets.index(ticket) and not left():
                    self._moved.wait(timeout=0.1)
