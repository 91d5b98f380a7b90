"""All runs: each is one prompt raced through several lanes, on a worker thread of its own.

One run computes at a time per device; the others wait in a bounded queue and report their place. A run that waits for
its visitor's words lets the next one compute meanwhile, without delaying any other.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from .api import Family, pack
from .archive import Archive
from .device_queue import DeviceQueue
from .jobs import Busy, Jobs, State
from .run import Request, Run

log = logging.getLogger(__name__)

STATES: tuple[State, ...] = ("loading", "queued", "running", "asking", "writing", "done")
MOST_BYTES = 500_000_000  # of packed traces in memory; one of 1,000 tokens takes 1 MB
ASKING = 200  # runs that may wait for their visitors' words: each holds a thread and a KV cache


class RunJournal(Protocol):
    """Where other processes read about the runs of this one."""

    def begin(self, run: Run) -> None:
        """A run has started."""
        ...

    def end(self, run: Run) -> None:
        """It has ended, and is in the library if it is kept."""
        ...

    def forget(self, run_ids: Collection[str]) -> None:
        """Their owner deleted them."""
        ...

    def started(self, owners: Collection[str]) -> list[str]:
        """The runs that these have started, in any process."""
        ...


class Runs:
    """All runs of this process: the queues they wait in, and the last finished ones, kept for replay."""

    def __init__(
        self,
        load: Callable[[Any, Callable[[], bool]], Family],
        *,
        places: int = 1,
        waiting: int = 300,
        keep: int = 100,
        owner: Callable[[], str | None] = lambda: None,
        remembered: Callable[[], bool] = lambda: True,
        save: Callable[[Run], None] = lambda run: None,
        journal: RunJournal | None = None,
    ) -> None:
        """`load` loads a family; `places` runs compute at once on a device, up to `waiting` may queue, and `keep`
        finished ones are kept, fewer if their traces take more than `MOST_BYTES`.

        `owner`, called on the visitor's thread, says who starts a run, `remembered` whether their browser sends it with
        each request; `save` receives a finished run that has an owner; `journal` tells other processes of runs.
        """
        self._load = load
        self._owner, self._remembered, self._save = owner, remembered, save
        self._journal = journal
        self._places, self._waiting = places, waiting
        self._lines: dict[str, DeviceQueue] = {}
        # Runs without a trace are counted separately, so that a burst of failures drops nobody's result; guests' too.
        self._jobs: Jobs[Run] = Jobs(keep, group=lambda run: (bool(run.ends), run.guest), dropped=self._drop)
        self._archive = Archive()
        self._lock = threading.Lock()

    def start(
        self, request: Request, *, guest: str | None = None, over: Callable[[Run], None] = lambda run: None
    ) -> Run:
        """Start a run, or queue it; `over` gets it at its end, on its thread.

        With the name of a `guest`, it is for somebody without a page of the app: it opens only by its ticket, waits its
        turn among the guest's own, and no library keeps it.

        Raises:
            Busy: if the queue is full.
        """
        run = Run(
            request=request,
            owner=guest or self._owner(),
            ticket=secrets.token_urlsafe(24) if guest or not self._remembered() else "",
            guest=guest is not None,
            archive=self._archive,
        )
        self._jobs.admit(run, self._full)
        if self._journal:
            self._journal.begin(run)
        began = time.perf_counter()

        def work() -> None:
            family = self._load(request.choice, lambda: run.stopped)
            run.device = family.card.device
            run.compute(family, self.line(run.device))

        def after() -> None:
            log.info("run %s ended after %.2f s: %s", run.id, time.perf_counter() - began, run.outcome)
            self._hand_over(run)
            self._make_room(run)
            if self._journal:
                self._journal.end(run)
            over(run)

        run.start(work, after)
        return run

    def take_back(self, run: Run, traces: dict[int, bytes]) -> Run:
        """Restore a finished run, with its lanes' traces as JSON."""
        run.archive, run.restored = self._archive, True
        for lane, trace in traces.items():
            self._archive.put(run.trace_name(lane), pack(trace))
        self._jobs.admit(run)
        return run

    def get(self, run_id: str | None) -> Run | None:
        """The run with that id, while it is in memory."""
        return self._jobs.get(run_id)

    def forget(self, run_id: str) -> None:
        """End a run and drop its traces, here and in every other process: its owner deleted it."""
        self.drop(run_id)
        if self._journal:
            self._journal.forget([run_id])

    def forget_all(self, guests: Collection[str]) -> None:
        """The same for every run of these guests, whichever process computes it."""
        found = {run.id for guest in guests for run in self.of(guest)}
        if self._journal:
            found.update(self._journal.started(guests))
        for run_id in found:
            self.drop(run_id)
        if self._journal and found:
            self._journal.forget(found)

    def of(self, guest: str) -> list[Run]:
        """A guest's runs that are in memory here, oldest first."""
        return [run for run in self._jobs.all() if run.guest and run.owner == guest]

    def drop(self, run_id: str) -> None:
        """The same in this process only."""
        if run := self._jobs.pop(run_id):
            run.deleted = True
            run.cancel()
            self._drop(run)

    def trace(self, trace_name: str) -> bytes | None:
        """The JSON of a finished lane."""
        return self._archive.json(trace_name)

    def counts(self) -> dict[str, int]:
        """The number of runs in each state."""
        states = [run.state if run.active else "done" for run in self._jobs.all()]
        return {state: states.count(state) for state in STATES}

    def busy(self) -> bool:
        """Whether a run is computing or about to."""
        return any(run.active and run.state != "asking" for run in self._jobs.all())

    def line(self, device: str) -> DeviceQueue:
        """The queue for a device, for everything that computes on it."""
        with self._lock:
            return self._lines.setdefault(device, DeviceQueue(self._places))

    def close(self) -> None:
        """End everything, at shutdown."""
        self._jobs.close()

    def _full(self, others: Iterable[Run]) -> str | None:
        """Why no more runs are accepted."""
        states = [run.state for run in others if run.active]
        asking = states.count("asking")
        if len(states) - asking > self._waiting:
            return (
                f"{self._waiting} runs are waiting already, which is as many as this server takes. "
                "Try again in a moment; your prompt and settings are kept."
            )
        if asking >= ASKING:
            return (
                f"{ASKING} runs are waiting for their visitors' words, which is as many as this server takes. "
                "Try again in a few minutes; your prompt and settings are kept."
            )
        return None

    def _make_room(self, newest: Run) -> None:
        """Drop the oldest finished runs while the traces take too much; the library has what is kept of them."""
        for run in self._jobs.all():
            if self._archive.held <= MOST_BYTES:
                return
            if run is not newest and run.finished and run.ends and self._jobs.pop(run.id):
                self._drop(run)

    def _drop(self, run: Run) -> None:
        for lane in range(len(run.request.lanes)):
            self._archive.drop(run.trace_name(lane))

    def _hand_over(self, run: Run) -> None:
        """Pass a finished run to the library; an error there does not fail the run."""
        if run.owner is not None and run.ends and not run.guest:
            try:
                self._save(run)
            except Exception:
                run.unsaved = True
                log.exception("run %s could not be saved", run.id)


class CurrentRun:
    """The current run of one browser session: at most one. Closing the desk ends it."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._closed = False
        self.run: Run | None = None

    def start(self, request: Request) -> Run:
        """End the session's earlier run and start another."""
        if self._closed:
            raise Busy("This page has lost its connection to the server; reload it.")
        self.stop()
        self.run = self._runs.start(request)
        return self.run

    def stop(self) -> None:
        """End the session's run, if there is one."""
        if self.run is not None:
            self.run.cancel()

    def close(self) -> None:
        """Called when the browser has left."""
        self._closed = True
        self.stop()
