"""Sweeps as background jobs: many prompts through several lanes, cell by cell, independent of the page they began on.

A sweep waits in the same queue for the device as every run, and releases it after each cell, so that nobody waits for
more than one cell. Its id in the page's address finds it again; only its owner may control it. A sweep that no page has
requested for a while stops, and can be resumed. `sweep_store` has what other processes and earlier ones measured.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

from app import services
from app.decoding.api import Family
from app.decoding.device_queue import Cancelled, DeviceQueue
from app.decoding.jobs import Jobs
from app.records.database import Unavailable
from specdec_core.foundations.errors import SettingsError
from specdec_measure.sweep.lanes import complete
from specdec_measure.sweep.measured import MeasuredCase, complete_turns
from specdec_measure.sweep.run import SweepProgress

from .sweep import Order, Sweep
from .sweep_store import SweepTable

log = logging.getLogger(__name__)

MAX_CELLS = 5_000


class Sweeps:
    """All sweeps of this process.

    Args:
        load: loads a choice's models; it is passed a function that says whether to give up.
        line: the queue for a device.
        active: how many may run at the same time.
        keep: how many finished ones are kept in memory.
        store: those in the database; None where nothing lasts.
    """

    def __init__(
        self,
        load: Callable[[Any, Callable[[], bool]], Family],
        line: Callable[[str], DeviceQueue],
        *,
        active: int = 4,
        keep: int = 16,
        store: SweepTable | None = None,
    ) -> None:
        self._load, self._line = load, line
        self._active, self._store = active, store
        self._jobs: Jobs[Sweep] = Jobs(keep)
        self._lock = threading.Lock()

    def start(
        self, order: Order, owner: str, kind: str = "prompts", known: Sequence[MeasuredCase] = ()
    ) -> Sweep:
        """Start a sweep; the owner's earlier one of this kind ends. `known` cells of it are not measured again.

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
        job = Sweep(owner=owner, order=order, kind=kind, rows=complete_turns(known, len(order.lanes)))
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

    def get(self, job_id: str | None, owner: str) -> Sweep | None:
        """The sweep of that id, while it is kept, as this visitor may see it."""
        own = self._jobs.get(job_id)
        if self._store is None or not job_id or (own is not None and (own.active or not own.stored)):
            return own
        try:
            return self._store.find(job_id, owner, own)
        except Unavailable:
            return own

    def delete(self, job: Sweep) -> None:
        """Forget it, with all it has measured.

        Raises:
            Unavailable: if it is in the database, and that does not answer.
        """
        job.cancel()
        if self._store:
            self._store.delete(job.id)
        self._jobs.pop(job.id)

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
            raise Cancelled

    def _after(self, job: Sweep) -> None:
        if self._store:
            with suppress(Unavailable):  # it has been logged
                self._store.write(job)
        log.info("sweep %s: %s, %d of %d cells", job.id, job.state, len(job.rows), job.order.cells)

    def _measure(self, job: Sweep, models: Family, line: DeviceQueue) -> None:
        order = job.order
        job.rows = complete_turns(job.rows, len(order.lanes))

        def on_progress(ahead: SweepProgress) -> None:
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
            if self._store:
                with suppress(Unavailable):
                    self._store.write_now_and_then(job)


@cache
def sweeps() -> Sweeps:
    """The sweeps of all sessions, with the models and in the queue of their runs."""
    database = services.database()
    return Sweeps(
        lambda choice, gone: services.shelf().get(choice, gone),
        lambda device: services.runs().line(device),
        store=SweepTable(database) if database.lasting else None,
    )
