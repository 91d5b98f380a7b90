"""Jobs: cancellable work on a thread of its own that holds a device for a while.

A run, a sweep and a measurement are jobs: each has an owner, a state and a place in the device's queue, and ends with a
result or a sentence.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar

from app.monitoring import figures
from specdec_core.foundations.errors import SpecdecError

from .device_queue import Cancelled, DeviceQueue, QueueEntry

log = logging.getLogger(__name__)

# asking: waits for its visitor's next words; writing: saves its record. Neither computes, so the device is free.
State = Literal["loading", "queued", "running", "asking", "writing", "done", "stopped", "failed"]
OVER: tuple[State, ...] = ("done", "stopped", "failed")


class Busy(RuntimeError):
    """No more jobs are accepted; its text can be shown."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """One job. Only its thread writes to it, except for `cancel` and `seen`.

    Args:
        owner: its owner; None if nobody may end it from a page.
        place: the number of jobs ahead of it in the device's queue.
        error: a sentence that can be shown, if it failed in a foreseen way or has a `name`.
        patience_s: it ends once nobody has looked at it for this long.
    """

    name: ClassVar[str] = ""  # its name in the sentence about an unexpected failure

    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    owner: str | None = None
    state: State = "loading"
    place: int = 0
    error: str | None = None
    patience_s: float = math.inf
    _stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _looked: float = field(default_factory=time.monotonic)

    @property
    def kind(self) -> str:
        """What it is in the operator's figures."""
        return self.name or "job"

    @property
    def active(self) -> bool:
        """Whether it is running."""
        return not self._over.is_set()

    @property
    def stopped(self) -> bool:
        """Whether to end early: cancelled, or nobody is watching any more."""
        return self._stop.is_set() or time.monotonic() - self._looked > self.patience_s

    def cancel(self) -> None:
        """Request its end, which comes within one round."""
        self._stop.set()

    def seen(self) -> None:
        """Record that somebody is watching."""
        self._looked = time.monotonic()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; returns whether it came."""
        return self._over.wait(timeout)

    def again(self) -> None:
        """Reset to the state before the start, keeping the results so far."""
        self._stop.clear()
        self._over.clear()
        self.seen()
        self.state, self.error = "loading", None

    def start(self, work: Callable[[], None], after: Callable[[], None] = lambda: None) -> None:
        """Do the work on a thread of its own, then `after` it what nobody waits for."""

        def both() -> None:
            self.perform(work)
            after()

        threading.Thread(target=both, name=f"{self.name or 'job'}-{self.id}", daemon=True).start()

    def perform(self, work: Callable[[], None]) -> None:
        """Do the work on this thread and record how it ends: done, stopped (also by `Cancelled`) or failed."""
        end: State = "failed"
        try:
            work()
            end = "done"
        except Cancelled:
            end = "stopped"
        except SpecdecError as error:
            if self.stopped:  # a stopped job has no errors that concern its visitor
                end = "stopped"
            else:
                self.error = str(error)
        except Exception as error:
            log.exception("%s %s failed", self.name or "job", self.id)
            self.error = _sentence(error, self.name) if self.name else None
        finally:
            self.ending(end)
            figures.ended.labels(self.kind, end).inc()
            self.state, self.place = end, 0
            self._over.set()

    def ending(self, end: State) -> None:
        """Called on its thread right before it ends."""

    def queued(self, place: int) -> None:
        """Called on its thread whenever its place in the queue changes."""
        self.place = place

    @contextmanager
    def turn(self, line: DeviceQueue) -> Iterator[QueueEntry]:
        """Hold the device; the value is the queue's ticket.

        Raises:
            Cancelled: if it is to end before its turn.
        """
        if self.stopped:
            raise Cancelled
        self.state = "queued"
        with line.turn(lambda: self.stopped, self.queued, self.owner) as ticket:
            self.state, self.place = "running", 0
            yield ticket


J = TypeVar("J", bound=Job)


class Jobs(Generic[J]):
    """The jobs of one kind by id: all running ones and the last few finished ones.

    Args:
        keep: how many finished ones are kept.
        group: finished jobs are counted separately for each of its values.
        dropped: called with each job that is no longer kept.
    """

    def __init__(
        self,
        keep: int,
        group: Callable[[J], Hashable] = lambda job: None,
        dropped: Callable[[J], None] = lambda job: None,
    ) -> None:
        self._keep, self._group, self._dropped = keep, group, dropped
        self._jobs: OrderedDict[str, J] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, job: J, full: Callable[[Iterable[J]], str | None] = lambda others: None) -> None:
        """Add a job as the newest.

        Raises:
            Busy: with the sentence that `full` returns for the other jobs; nothing is changed then.
        """
        with self._lock:
            if sentence := full([other for other in self._jobs.values() if other is not job]):
                figures.refused.labels(job.kind).inc()
                raise Busy(sentence)
            self._jobs[job.id] = job
            self._jobs.move_to_end(job.id)
            over: dict[Hashable, list[J]] = {}
            for other in self._jobs.values():
                if not other.active and other is not job:
                    over.setdefault(self._group(other), []).append(other)
            old = [other for group in over.values() for other in group[: -self._keep]]
            for other in old:
                del self._jobs[other.id]
        for other in old:
            self._dropped(other)

    def get(self, job_id: str | None) -> J | None:
        """The job with that id, while it is kept."""
        with self._lock:
            return self._jobs.get(job_id or "")

    def pop(self, job_id: str) -> J | None:
        """Remove the job with that id and return it."""
        with self._lock:
            return self._jobs.pop(job_id, None)

    def all(self) -> list[J]:
        """All kept jobs, oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def close(self) -> None:
        """End everything, at shutdown."""
        for job in self.all():
            job.cancel()


def _sentence(error: Exception, name: str) -> str:
    """The sentence for an unexpected failure; its details go to the server's log."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"There was not enough memory for this {name}. Use a smaller model, fewer tokens or a shorter prompt."
    return (
        f"The {name} ended because of an error in the program, not in what you typed. "
        "The server's log has the details."
    )
