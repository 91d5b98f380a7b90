"""A call that is being answered, in whichever process has the models: `child` and `replica` share this.

A call is (operation, choice, arguments, hooks, paced); its answers are (kind, value). A hook is a callable that the
operation takes by name and that the caller answers. A paced call computes each item only once it is asked for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from specdec_core.foundations.errors import SpecdecError

from . import preparing
from .device_queue import Cancelled, DeviceQueue, QueueEntry
from .loaded import Loaded
from .models import ModelChoice

log = logging.getLogger(__name__)

COMPUTING = ("race", "sweep", "surprises", "width_curve", "distil")  # of a family, with passes of its models
OPERATIONS = (*COMPUTING, "about", "chat", "ledger")
ENDING_KINDS = ("end", "refused", "failed")  # kinds after which no answer follows
STOPPED = "Stopped before a decoder was free."


@dataclass(slots=True)
class Call:
    """One call. `send` sends an answer; where several calls compute in turn, `line` is where they wait."""

    send: Callable[[str, Any], None]
    line: DeviceQueue | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    _permits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _words: SimpleQueue[str] = field(default_factory=SimpleQueue)
    _ticket: QueueEntry | None = None

    def receive(self, kind: str, *rest: Any) -> None:
        """A message from the caller."""
        if kind == "more":
            self._permits.release()
        elif kind == "words":
            self._words.put(rest[0])
        elif kind == "cancel":
            self.cancelled.set()
            self._permits.release()
            self._words.put("")

    def answer(
        self, find: Callable[[], Callable[..., Any]], given: Any, hooks: tuple[str, ...], paced: bool
    ) -> None:
        """Perform the operation that `find` returns, and send its answers."""
        try:
            operation = find()
            with nullcontext() if paced else self._turn():
                found = operation(*given[0], **given[1], **self._hooks(hooks))
                if isinstance(found, Iterator):
                    while (item := self._next(found, paced)) is not None:
                        self.send("item", item)
                    found = None
            self.send("end", found)
        except Cancelled:
            self.send("refused", (SpecdecError.__name__, STOPPED))
        except SpecdecError as error:
            self.send("refused", (type(error).__name__, str(error)))
        except Exception as error:
            log.exception("a call failed")
            self.send("failed", isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError")

    def _next(self, items: Iterator[Any], paced: bool) -> Any:
        if not paced:
            return next(items, None)
        self._permits.acquire()
        with self._turn():
            return next(items, None)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self.line is None:
            yield
            return
        with self.line.turn(self.cancelled.is_set, lambda place: None) as self._ticket:
            yield

    def _hooks(self, names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
        all_hooks: dict[str, Callable[..., Any]] = {
            "cancelled": self.cancelled.is_set,
            "ask": self._ask,
            "on_progress": lambda *progress: self.send("progress", progress),
        }
        return {name: all_hooks[name] for name in names}

    def _ask(self, text: str) -> str:
        self.send("ask", text)
        if self.line is None or self._ticket is None:
            return self._words.get()
        with self.line.away(self._ticket, self.cancelled.is_set):
            return self._words.get()


def operation(name: str, choice: ModelChoice, family: Callable[[], Loaded]) -> Callable[..., Any]:
    """What a call performs; `family` loads the choice's models if they are not there."""
    if name in OPERATIONS:
        found: Callable[..., Any] = getattr(family(), name)
        return found
    others: dict[str, Callable[..., Any]] = {
        "load": lambda: family().card,
        "fetch": preparing.fetch,
        "prepare": preparing.prepare,
        "needs": preparing.needs,
        "inspect": preparing.inspect,
        "device": _device,
    }
    return others[name]


def _device(name: str) -> str:
    """The device that a choice's device means here."""
    from specdec_core.runtime.machine import choose_device

    return str(choose_device(name))
