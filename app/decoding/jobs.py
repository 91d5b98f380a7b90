"""Jobs: work on a thread of its own that holds a device for a while, for somebody who may end it early.

A run, a sweep and a measurement are jobs: each has an owner, a state, a place in the device's line, and ends with what
it found or with a sentence.
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

from specdec_core.errors import SpecdecError

from .line import Left, Line

log = logging.getLogger(__name__)

# asking: for its visitor's next words; writing: up its record. In both nothing computes and the device is free.
State = Literal["loading", "queued", "running", "asking", "writing", "done", "stopped", "failed"]
OVER: tuple[State, ...] = ("done", "stopped", "failed")


class Busy(RuntimeError):
    """No more jobs are taken in; its text is fit to be shown."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """One job. Its thread alone writes to it, apart from `cancel` and `seen`.

    Args:
        owner: whose it is; None: nobody's, so that nobody may end it from a page.
        place: how many stand ahead of it in the device's line.
        error: a sentence fit to be shown, if it failed for a reason that was foreseen, or if it has a `name`.
        patience_s: it ends once nobody has looked at it for so many seconds.
    """

    name: ClassVar[str] = ""  # what it is called in the sentence about a failure that nobody foresaw

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
    def active(self) -> bool:
        """Whether it goes on."""
        return not self._over.is_set()

    @property
    def stopped(self) -> bool:
        """Whether it is to end early: somebody asked for it, or nobody looks at it any more."""
        return self._stop.is_set() or time.monotonic() - self._looked > self.patience_s

    def cancel(self) -> None:
        """Ask it to end; it does within one round."""
        self._stop.set()

    def seen(self) -> None:
        """Somebody looks at it."""
        self._looked = time.monotonic()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        return self._over.wait(timeout)

    def again(self) -> None:
        """Be as before the start; what was found until now stays."""
        self._stop.clear()
        self._over.clear()
        self.seen()
        self.state, self.error = "loading", None

    def start(self, work: Callable[[], None], after: Callable[[], None] = lambda: None) -> None:
        """Do the work on a thread of its own, and `after` it what nobody has to wait for."""

        def both() -> None:
            self.perform(work)
            after()

        threading.Thread(target=both, name=f"{self.name or 'job'}-{self.id}", daemon=True).start()

    def perform(self, work: Callable[[], None]) -> None:
        """Do the work on this thread and note how it ends: done, stopped (by `Left`, too) or failed."""
        end: State = "failed"
        try:
            work()
            end = "done"
        except Left:
            end = "stopped"
        except SpecdecError as error:
            if self.stopped:  # what is cut short complains of nothing that its visitor has to know
                end = "stopped"
            else:
                self.error = str(error)
        except Exception as error:
            log.exception("%s %s failed", self.name or "job", self.id)
            self.error = _sentence(error, self.name) if self.name else None
        finally:
            self.ending(end)
            self.state, self.place = end, 0
            self._over.set()

    def ending(self, end: State) -> None:
        """Called on its thread right before it is over."""

    def queued(self, place: int) -> None:
        """Called on its thread whenever its place in the line changes."""
        self.place = place

    @contextmanager
    def turn(self, line: Line) -> Iterator[object]:
        """Hold the device; the value is the line's ticket.

        Raises:
            Left: if it is to end before its turn came.
        """
        if self.stopped:
            raise Left
        self.state = "queued"
        with line.turn(lambda: self.stopped, self.queued) as ticket:
            self.state, self.place = "running", 0
            yield ticket


J = TypeVar("J", bound=Job)


class Jobs(Generic[J]):
    """The jobs of one kind by their ids: all that go on, and of those that are over the last few.

    Args:
        keep: how many that are over stay.
        group: jobs are counted apart by what this says of them.
        dropped: is given each job that no longer stays.
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
        """Take a job in, as the newest.

        Raises:
            Busy: with the sentence that `full` has of the other jobs; then nothing is changed.
        """
        with self._lock:
            if sentence := full([other for other in self._jobs.values() if other is not job]):
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
        """The job of that id, while it is kept."""
        with self._lock:
            return self._jobs.get(job_id or "")

    def pop(self, job_id: str) -> J | None:
        """The job of that id, which is kept no longer."""
        with self._lock:
            return self._jobs.pop(job_id, None)

    def all(self) -> list[J]:
        """All that are kept, oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def close(self) -> None:
        """End everything, at shutdown."""
        for job in self.all():
            job.cancel()


def _sentence(error: Exception, name: str) -> str:
    """A failure that nobody foresaw in words; its details stay in the server's log."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"There was not enough memory for this {name}. Use a smaller model, fewer tokens or a shorter prompt."
    return (
        f"The {name} ended because of an error in the program, not in what you typed. "
        "The server's log has the details."
    )
