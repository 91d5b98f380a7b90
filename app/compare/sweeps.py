"""Sweeps as background jobs: many prompts through several lanes, cell by cell, outliving the page that began them.

Nothing here imports streamlit. A sweep stands in the same line for the device as every run, and leaves it after each
cell, so that nobody waits for more than one. It is found again by its id, which stands in the page's address; only who
began it may steer it. A sweep that no page has looked at for a while stops; it goes on when it is asked to.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Literal

from app import services
from app.decoding.line import Left, Line
from app.decoding.runs import Busy
from specdec_core.errors import SettingsError, SpecdecError
from specdec_core.settings import Settings
from specdec_core.sweep.cases import Case
from specdec_core.sweep.lanes import about, complete
from specdec_core.sweep.measured import Measured, complete_turns
from specdec_core.sweep.run import Progress, sweep

log = logging.getLogger(__name__)

MAX_CELLS = 5_000
UNSEEN_S = 600.0  # a sweep that nobody has looked at for this long stops
State = Literal["loading", "queued", "running", "stopped", "done", "failed"]
OVER: tuple[State, ...] = ("stopped", "done", "failed")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be swept; lane 0 is plain decoding."""

    cases: tuple[Case, ...]
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    repeats: int
    choice: Any = None

    @property
    def cells(self) -> int:
        """How many cells there will be."""
        return len(self.cases) * len(self.lanes) * self.repeats


@dataclass(slots=True, eq=False)
class Job:
    """One sweep. Only its worker writes to it, apart from `cancel` and `seen`."""

    id: str
    order: Order
    owner: str | None
    rows: list[Measured] = field(default_factory=list)
    state: State = "loading"
    error: str | None = None
    place: int = 0
    ahead: Progress | None = None
    about: dict[str, Any] = field(default_factory=dict)  # models, machine, versions, date
    _stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _looked: float = field(default_factory=time.monotonic)
    _measuring: float = 0.0  # seconds since it began or went on, in which cells were measured
    _measured: int = 0  # how many

    @property
    def active(self) -> bool:
        """Whether it goes on."""
        return not self._over.is_set()

    def cancel(self) -> None:
        """Ask it to end; it does within one round, and whole cells stay."""
        self._stop.set()

    def seen(self) -> None:
        """Somebody looks at it."""
        self._looked = time.monotonic()

    def gone(self) -> bool:
        """Whether it is to end."""
        return self._stop.is_set() or time.monotonic() - self._looked > UNSEEN_S

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        return self._over.wait(timeout)

    @property
    def left_s(self) -> float | None:
        """About how many seconds it will take, as its cells took so far; waiting in line comes on top."""
        if not self._measured:
            return None
        return self._measuring / self._measured * (self.order.cells - len(self.rows))


class Sweeps:
    """All sweeps of this process.

    Args:
        load: models of a choice; asked meanwhile whether to give up.
        line: the line in front of a device.
        active: how many may go on at the same time.
        keep: how many that are over are kept.
    """

    def __init__(
        self,
        load: Callable[[Any, Callable[[], bool]], Any],
        line: Callable[[str], Line],
        *,
        active: int = 4,
        keep: int = 16,
    ) -> None:
        self._load, self._line = load, line
        self._active, self._keep = active, keep
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, order: Order, owner: str | None = None) -> Job:
        """Begin a sweep; the owner's earlier one ends.

        Raises:
            SpecdecError: one sentence, if it is too large or holds no prompt.
            Busy: if as many as may are going on.
        """
        lanes, labels = complete(order.lanes, order.labels)
        order = Order(order.cases, tuple(lanes), tuple(labels), order.repeats, order.choice)
        if not order.cases:
            raise SettingsError("Choose at least one family of prompts.")
        if order.cells > MAX_CELLS:
            raise SettingsError(
                f"This sweep would have {order.cells:,} cells; at most {MAX_CELLS:,} are measured. Take fewer prompts, "
                "lanes or repeats."
            )
        job = Job(secrets.token_urlsafe(12), order, owner)
        with self._lock:
            for other in self._jobs.values():
                if owner is not None and other.owner == owner:
                    other.cancel()
        self._begin(job)
        return job

    def resume(self, job: Job) -> None:
        """Go on with a sweep that stopped; what was measured stays.

        Raises:
            Busy: if as many as may are going on.
        """
        if job.state != "done":
            self._begin(job)

    def get(self, job_id: str | None) -> Job | None:
        """The sweep of that id, while it is kept."""
        with self._lock:
            return self._jobs.get(job_id or "")

    def close(self) -> None:
        """End everything."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()

    def _begin(self, job: Job) -> None:
        with self._lock:
            if job.id in self._jobs and job.active:
                return
            going = sum(
                other.active and not other.gone() for other in self._jobs.values() if other is not job
            )
            if going >= self._active:
                raise Busy(
                    f"This server is already running as many sweeps as it takes ({self._active}). Try again later; "
                    "your choices are kept."
                )
            job._stop.clear()
            job._over.clear()
            job.seen()
            job.state, job.error, job._measuring, job._measured = "loading", None, 0.0, 0
            self._jobs[job.id] = job
            self._jobs.move_to_end(job.id)
            over = [key for key, other in self._jobs.items() if not other.active]
            for old in over[: -self._keep]:
                del self._jobs[old]
        threading.Thread(target=self._work, args=(job,), name=f"sweep-{job.id}", daemon=True).start()

    def _work(self, job: Job) -> None:
        end: State = "failed"
        try:
            models = self._load(job.order.choice, job.gone)
            job.about = about(models, job.order.lanes, job.order.labels)
            self._measure(job, models, self._line(str(models.device)))
            end = "done" if len(job.rows) == job.order.cells else "stopped"
        except Left:
            end = "stopped"
        except SpecdecError as error:
            if job.gone():
                end = "stopped"
            else:
                job.error = str(error)
        except Exception:
            log.exception("sweep %s failed", job.id)
            job.error = (
                "The sweep ended because of an error in the program. The server's log has the details."
            )
        finally:
            job.state, job.place, job.ahead = end, 0, None
            job._over.set()
            log.info("sweep %s: %s, %d of %d cells", job.id, end, len(job.rows), job.order.cells)

    def _measure(self, job: Job, models: Any, line: Line) -> None:
        order = job.order
        job.rows = complete_turns(job.rows, len(order.lanes))

        def told(ahead: Progress) -> None:
            job.ahead = ahead

        def place(ahead: int) -> None:
            job.place = ahead

        rows: Iterator[Measured] = sweep(
            models, order.cases, order.lanes, repeats=order.repeats, labels=order.labels, cancelled=job.gone,
            known=job.rows, told=told,
        )  # fmt: skip
        for _ in islice(rows, len(job.rows)):  # they are there, and need no device
            pass
        while True:
            job.state = "queued"
            with line.turn(job.gone, place):
                job.state, job.place = "running", 0
                began = time.perf_counter()
                row = next(rows, None)
                took = time.perf_counter() - began
            if row is None:
                return
            job.rows.append(row)
            job._measuring += took
            job._measured += 1


@cache
def sweeps() -> Sweeps:
    """The sweeps of all sessions, with the models and in the line of their runs."""
    return Sweeps(
        lambda choice, gone: services.shelf().get(choice, gone), lambda device: services.runs().line(device)
    )
