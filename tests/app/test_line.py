"""The queue for a device: who is next, and how long that takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from app.decoding import device_queue as module
from app.decoding.device_queue import Cancelled, DeviceQueue


class Crowd:
    """Jobs that stand in a line in the order in which they are sent there, and go on when told to."""

    def __init__(self, places: int = 1) -> None:
        self.line = DeviceQueue(places)
        self.served: list[str] = []
        self.places: dict[str, list[int]] = {}
        self.go = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def send(self, name: str, owner: str | None) -> None:
        """Waits until it stands in line, and says its place."""
        heard = self.places[name] = []

        def stand() -> None:
            with self.line.turn(lambda: False, heard.append, owner):
                self.served.append(name)
                assert self.go.acquire(timeout=20)

        self.threads.append(threading.Thread(target=stand))
        self.threads[-1].start()
        until(lambda: bool(heard) or name in self.served)

    def finish(self) -> list[str]:
        for _ in self.threads:
            self.go.release()
        for thread in self.threads:
            thread.join(20)
        return self.served


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not fact():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.002)


def test_a_visitor_s_second_turn_comes_after_everybody_s_first() -> None:
    """Catches: one visitor whose runs and sweeps hold a whole class, and one who overtakes the run that computes."""
    crowd = Crowd()
    for name, owner in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")]:
        crowd.send(name, owner)
    until(lambda: crowd.places["a3"][-1] == 5)  # it is told that others went ahead
    assert crowd.finish() == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_without_owners_it_is_first_come_first_served() -> None:
    crowd = Crowd()
    for name in "abcd":
        crowd.send(name, None)
    assert crowd.finish() == list("abcd")


def test_several_devices_are_held_at_once_and_taken_back_after_their_holders() -> None:
    """Catches: a second device that nobody gets, a place counted from the first instead of the last holder, and one
    back from its visitor's words that pushes out a holder."""
    crowd = Crowd(places=2)
    for name in "abcd":
        crowd.send(name, None)
    assert sorted(crowd.served) == ["a", "b"]
    assert (crowd.places["c"], crowd.places["d"]) == ([1], [2])
    line, order = DeviceQueue(places=2), []
    with line.turn(lambda: False, lambda place: None) as ticket, line.turn(lambda: False, order.append):
        with line.away(ticket, lambda: False):
            pass
        assert not order and line.wait_s(1) is not None
        with pytest.raises(Cancelled), line.turn(lambda: bool(order), order.append):
            pass
    assert order == [1]
    assert sorted(crowd.finish()) == list("abcd")


def test_the_expected_wait_follows_the_last_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a wait in rounds instead of seconds, and one that does not shrink while the present turn goes on."""
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    line = DeviceQueue()
    assert line.wait_s(1) is None, "nothing is known before the first turn"
    for seconds in (4.0, 8.0):
        with line.turn(lambda: False, lambda place: None):
            clock[0] += seconds
    with line.turn(lambda: False, lambda place: None) as ticket:
        assert (line.wait_s(1), line.wait_s(3)) == (6.0, 18.0)
        clock[0] += 2.0
        assert line.wait_s(1) == 4.0
        clock[0] += 100.0
        assert line.wait_s(2) == 6.0, "one that takes long may end at any moment"
        with line.away(ticket, lambda: False):
            assert line.wait_s(1) is None, "nobody computes"
    pair = DeviceQueue(places=2)
    with pair.turn(lambda: False, lambda place: None):
        clock[0] += 6.0
    with pair.turn(lambda: False, lambda place: None), pair.turn(lambda: False, lambda place: None):
        clock[0] += 2.0
        assert (pair.wait_s(1), pair.wait_s(2)) == (4.0, 7.0), "two devices serve a queue twice as fast"
