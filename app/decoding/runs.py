"""All runs: one prompt raced through several lanes on a worker thread each.

Nothing here imports streamlit. One run computes at a time per device; the others stand in a line of bounded length and
are told their place. A run that waits for its visitor's words lets the next one compute meanwhile.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Protocol, get_args

from specdec_core.chat import Chat
from specdec_core.engine.events import Event
from specdec_core.errors import SpecdecError
from specdec_core.settings import Settings

from .archive import Archive
from .line import Left, Line
from .run import Request, Run, State

log = logging.getLogger(__name__)

STOPPED = "Stopped before it started."


class Busy(RuntimeError):
    """No more runs are taken in; its text is fit to be shown."""


class Race(Protocol):
    """What `specdec_core.race` offers."""

    def __call__(
        self,
        models: Any,
        prompt: Any,
        lanes: list[Settings],
        *,
        cancelled: Callable[[], bool],
        ask: Callable[[str], str],
    ) -> Iterator[Event]: ...


class Runs:
    """All runs of this process: the lines they stand in, and the last ones, kept for replay."""

    def __init__(
        self,
        load: Callable[[Any, Callable[[], bool]], Any],
        race: Race,
        *,
        waiting: int = 16,
        keep: int = 24,
        owner: Callable[[], str | None] = lambda: None,
        save: Callable[[Run], None] = lambda run: None,
    ) -> None:
        """`load` and `race` bring models and decode; `waiting` runs may stand in line and `keep` finished ones stay.

        `owner` says, on the visitor's thread, whose run begins; `save` gets a run with an owner once it has ended.
        """
        self._load, self._race = load, race
        self._owner, self._save = owner, save
        self._waiting, self._keep = waiting, keep
        self._lines: dict[str, Line] = {}
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._archive = Archive()
        self._lock = threading.Lock()

    def start(self, request: Request) -> Run:
        """Begin a run, or stand in line for one.

        Raises:
            Busy: if the line is full.
        """
        run = Run(id=secrets.token_urlsafe(12), request=request, owner=self._owner(), _archive=self._archive)
        with self._lock:
            if sum(not other.finished for other in self._runs.values()) > self._waiting:
                raise Busy(
                    f"{self._waiting} runs are waiting already, which is as many as this server takes. "
                    "Try again in a moment; your prompt and settings are kept."
                )
            self._runs[run.id] = run
            finished = [(key, other) for key, other in self._runs.items() if other.finished]
            # Runs without a trace are counted apart, so that a burst of failures drops nobody's result.
            empty = [key for key, other in finished if not other.ends][: -self._keep]
            full = [key for key, other in finished if other.ends][: -self._keep]
            for old in (*empty, *full):
                for lane in self._runs.pop(old).ends:
                    self._archive.drop(f"{old}-{lane}")
        threading.Thread(target=self._work, args=(run,), name=f"run-{run.id}", daemon=True).start()
        return run

    def get(self, run_id: str | None) -> Run | None:
        """The run of that id, while it is kept."""
        with self._lock:
            return self._runs.get(run_id or "")

    def forget(self, run_id: str) -> None:
        """End a run and let go of its traces: its visitor deleted it."""
        with self._lock:
            run = self._runs.pop(run_id, None)
        if run is None:
            return
        run.cancel()
        for lane in range(len(run.request.lanes)):
            self._archive.drop(run.trace_name(lane))

    def trace(self, trace_name: str) -> bytes | None:
        """The JSON of a finished lane."""
        return self._archive.json(trace_name)

    def counts(self) -> dict[str, int]:
        """How many runs there are in each state."""
        with self._lock:
            states = [run.state for run in self._runs.values()]
        return {state: states.count(state) for state in get_args(State)}

    def line(self, device: str) -> Line:
        """The line in front of a device, for all that computes on it."""
        with self._lock:
            return self._lines.setdefault(device, Line())

    def close(self) -> None:
        """End everything, at shutdown."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.cancel()

    def _work(self, run: Run) -> None:
        started = time.perf_counter()
        try:
            models = self._load(run.request.choice, lambda: run.stopped)
            run.device = str(models.device)
            self._compute(run, models)
        except Left:
            run.error = STOPPED
        except SpecdecError as error:
            # a run that was stopped while its models were loading has nothing to complain about
            if not run.stopped:
                run.error = str(error)
            elif run.state == "loading":
                run.error = STOPPED
        except Exception as error:
            log.exception("run %s failed", run.id)
            run.error = _sentence(error)
        finally:
            if run.error:
                run.tell({"type": "error", "message": run.error})
            run.tell({"type": "done"})
            run.state = "done"
            run._done.set()
            log.info("run %s ended after %.2f s: %s", run.id, time.perf_counter() - started, _outcome(run))
            for lane in run.ends:
                self._archive.pack(run.trace_name(lane))
            self._hand_over(run)

    def _hand_over(self, run: Run) -> None:
        """Let the library have a finished run; what goes wrong there is nothing its visitor did."""
        if run.owner is not None and run.ends:
            try:
                self._save(run)
            except Exception:
                run.unkept = True
                log.exception("run %s could not be saved", run.id)

    def _compute(self, run: Run, models: Any) -> None:
        def told(place: int) -> None:
            run.place = place
            run.tell({"type": "queued", "place": place})

        line = self.line(run.device)
        if run.stopped:
            raise Left
        run.state = "queued"
        with line.turn(lambda: run.stopped, told) as ticket:

            def ask(text: str) -> str:
                run.state = "asking"
                with line.away(ticket, lambda: run.stopped):
                    words = run.ask(text)
                run.state = "running"
                return words

            run.state = "running"
            request = run.request
            run.templated = request.chat and models.chat_template
            prompt: Any = Chat(request.prompt, request.system) if run.templated else request.prompt
            run._computing = len(request.lanes)
            events = self._race(models, prompt, list(request.lanes), cancelled=lambda: run.stopped, ask=ask)
            for event in events:
                run.hear(event)
                if not run._computing:  # the device is free; a stopped race writes its records up only now
                    break
            idle = time.perf_counter()
        run.state = "writing"
        if run.stopped:
            log.info("run %s computed no more %.4f s after it was asked to stop", run.id, idle - run._asked)
        for event in events:
            run.hear(event)


def _sentence(error: Exception) -> str:
    """An unforeseen failure in words; its details stay in the server's log."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return (
            "There was not enough memory for this run. Use a smaller model, fewer tokens or a shorter prompt."
        )
    return "The run ended because of an error in the program, not in what you typed. The server's log has the details."


def _outcome(run: Run) -> str:
    if run.error and run.error != STOPPED:
        return f"error: {run.error}"
    if run.stopped:
        return f"stopped, {time.perf_counter() - run._asked:.3f} s after it was asked to"
    return ", ".join(run.ends.values()) or "nothing decoded"


class Desk:
    """What one browser session has running: at most one run. Closing the desk ends it."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._closed = False
        self.run: Run | None = None

    def start(self, request: Request) -> Run:
        """End the session's earlier run and begin another."""
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
        """The browser has left."""
        self._closed = True
        self.stop()
