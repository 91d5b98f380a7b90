"""Sweeps as background jobs: many prompts through several lanes, cell by cell, independent of the page they began on.

A sweep waits in the same queue for the device as every run, and releases it after each cell, so that nobody waits for
more than one cell. Its id in the page's address finds it again; only its owner may control it. A sweep that no page has
requested for a while stops, and can be resumed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from app import services
from app.decoding.api import Family
from app.decoding.jobs import Job, Jobs
from app.decoding.line import Left, Line
from specdec_core.errors import SettingsError
from specdec_core.settings import Settings
from specdec_core.sweep.cases import Case
from specdec_core.sweep.lanes import complete
from specdec_core.sweep.measured import Measured, complete_turns
from specdec_core.sweep.run import Progress

log = logging.getLogger(__name__)

MAX_CELLS = 5_000
UNSEEN_S = 600.0  # a sweep that no page has requested for this long stops


@dataclass(frozen=True, slots=True)
class Order:
    """What to sweep; lane 0 is plain decoding."""

    cases: tuple[Case, ...]
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    repeats: int
    choice: Any = None

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.cases) * len(self.lanes) * self.repeats


@dataclass(slots=True, eq=False, kw_only=True)
class Sweep(Job):
    """One sweep."""

    name: ClassVar[str] = "sweep"

    order: Order
    kind: str = "prompts"  # each owner has at most one running sweep of a kind
    patience_s: float = UNSEEN_S
    rows: list[Measured] = field(default_factory=list)
    ahead: Progress | None = None
    about: dict[str, Any] = field(default_factory=dict)  # models, machine, versions, date
    measuring: float = 0.0  # seconds spent measuring cells since it was started or resumed
    measured: int = 0  # how many

    @property
    def left_s(self) -> float | None:
        """Estimated seconds in all, from its cells so far; waiting in the queue comes on top."""
        if not self.measured:
            return None
        return self.measuring / self.measured * (self.order.cells - len(self.rows))


class Sweeps:
    """All sweeps of this process.

    Args:
        load: loads a choice's models; it is passed a function that says whether to give up.
        line: the queue for a device.
        active: how many may run at the same time.
        keep: how many finished ones are kept.
    """

    def __init__(
        self,
        load: Callable[[Any, Callable[[], bool]], Family],
        line: Callable[[str], Line],
        *,
        active: int = 4,
        keep: int = 16,
    ) -> None:
        self._load, self._line = load, line
        self._active = active
        self._jobs: Jobs[Sweep] = Jobs(keep)
        self._lock = threading.Lock()

    def start(self, order: Order, owner: str, kind: str = "prompts") -> Sweep:
        """Start a sweep; the owner's earlier one of this kind ends.

        Raises:
            SpecdecError: one sentence, if it is too large or has no prompt.
            Busy: if too many are running.
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
        job = Sweep(owner=owner, order=order, kind=kind)
        for other in self._jobs.all():
            if (other.owner, other.kind) == (owner, kind):
                other.cancel()
        self._begin(job)
        return job

    def resume(self, job: Sweep) -> None:
        """Resume a stopped sweep; its results so far stay.

        Raises:
            Busy: if too many are running.
        """
        with self._lock:  # two pages may request it at once
            if job.state != "done" and not job.active:
                self._begin(job)

    def get(self, job_id: str | None) -> Sweep | None:
        """The sweep of that id, while it is kept."""
        return self._jobs.get(job_id)

    def close(self) -> None:
        """End everything."""
        self._jobs.close()

    def _begin(self, job: Sweep) -> None:
        self._jobs.admit(job, self._full)
        job.again()
        job.measuring, job.measured = 0.0, 0
        job.start(lambda: self._work(job), lambda: self._after(job))

    def _full(self, others: Iterable[Sweep]) -> str | None:
        """Why no more sweeps are accepted."""
        if sum(other.active and not other.stopped for other in others) < self._active:
            return None
        return (
            f"This server is already running as many sweeps as it takes ({self._active}). Try again later; "
            "your choices are kept."
        )

    def _work(self, job: Sweep) -> None:
        models = self._load(job.order.choice, lambda: job.stopped)
        job.about = models.about(job.order.lanes, job.order.labels)
        try:
            self._measure(job, models, self._line(models.card.device))
        finally:
            job.ahead = None
        if len(job.rows) < job.order.cells:
            raise Left

    def _after(self, job: Sweep) -> None:
        log.info("sweep %s: %s, %d of %d cells", job.id, job.state, len(job.rows), job.order.cells)

    def _measure(self, job: Sweep, models: Family, line: Line) -> None:
        order = job.order
        job.rows = complete_turns(job.rows, len(order.lanes))

        def on_progress(ahead: Progress) -> None:
            job.ahead = ahead

        rows = models.sweep(
            order.cases, order.lanes, repeats=order.repeats, labels=order.labels,
            cancelled=lambda: job.stopped, known=job.rows, on_progress=on_progress,
        )  # fmt: skip
        for _ in islice(rows, len(job.rows)):  # already measured; no device needed
            pass
        while len(job.rows) < order.cells:
            with job.turn(line):
                began = time.perf_counter()
                row = next(rows, None)
                took = time.perf_counter() - began
            if row is None:
                return
            job.rows.append(row)
            job.measuring += took
            job.measured += 1


@cache
def sweeps() -> Sweeps:
    """The sweeps of all sessions, with the models and in the queue of their runs."""
    return Sweeps(
        lambda choice, gone: services.shelf().get(choice, gone), lambda device: services.runs().line(device)
    )
