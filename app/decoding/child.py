"""The decoder's process: loads models, and answers the calls that `local` sends through a pipe.

A call is (number, operation, choice, arguments, hooks, paced); its answers are (number, kind, value). Each runs on a
thread of its own, because one that waits for its visitor's words must not delay others; that only one computes at a
time is the caller's business. A hook is a callable that the operation takes by name and that the caller answers.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from app.monitoring import log as server_log
from specdec_core.errors import SpecdecError

from . import conversion
from .loaded import Loaded, load
from .models import Choice

log = logging.getLogger(__name__)

OPERATIONS = ("race", "sweep", "about", "chat", "ledger", "surprises", "width_curve")  # of a family


def main(pipe: Connection) -> None:
    """Serve calls until the other end of the pipe is closed: then its process has ended, and so does this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C ends the web server, which closes the pipe
    server_log.start()
    try:
        Served(pipe).serve()
    except (EOFError, OSError):
        pass
    finally:
        conversion.close()
        os._exit(0)  # at once, whatever is being computed


@dataclass(slots=True)
class Call:
    """A call that is being answered."""

    number: int
    send: Callable[[tuple[int, str, Any]], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    permits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    words: SimpleQueue[str] = field(default_factory=SimpleQueue)

    def hooks(self, names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
        """The hooks that the operation takes."""
        all_hooks: dict[str, Callable[..., Any]] = {
            "cancelled": self.cancelled.is_set,
            "ask": self._ask,
            "on_progress": lambda *progress: self.send((self.number, "progress", progress)),
        }
        return {name: all_hooks[name] for name in names}

    def _ask(self, text: str) -> str:
        self.send((self.number, "ask", text))
        return self.words.get()


class Served:
    """The families of this process, and the calls being answered."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._loading = threading.Lock()
        self._families: dict[Choice, Loaded] = {}
        self._calls: dict[int, Call] = {}

    def serve(self) -> None:
        """Read messages until the pipe is closed.

        Raises:
            EOFError, OSError: then.
        """
        while True:
            kind, number, *rest = self._pipe.recv()
            call = self._calls.get(number)
            if kind == "call":
                call = self._calls[number] = Call(number, self._send)
                threading.Thread(target=self._answer, args=(call, *rest), name=f"call-{number}").start()
            elif kind == "drop":
                self._families.pop(rest[0], None)
            elif call is None:  # answered meanwhile
                pass
            elif kind == "more":
                call.permits.release()
            elif kind == "words":
                call.words.put(rest[0])
            elif kind == "cancel":
                call.cancelled.set()
                call.permits.release()

    def _send(self, message: tuple[int, str, Any]) -> None:
        with self._sending:
            self._pipe.send(message)

    def _answer(
        self, call: Call, operation: str, choice: Choice, given: Any, hooks: tuple[str, ...], paced: bool
    ) -> None:
        try:
            found = self._operation(operation, choice)(*given[0], **given[1], **call.hooks(hooks))
            if isinstance(found, Iterator):
                while True:
                    if paced:
                        call.permits.acquire()
                    item = next(found, None)
                    if item is None:
                        break
                    self._send((call.number, "item", item))
                found = None
            self._send((call.number, "end", found))
        except SpecdecError as error:
            self._send((call.number, "refused", (type(error).__name__, str(error))))
        except OSError:  # nobody is left to tell
            pass
        except Exception as error:
            log.exception("%s failed", operation)
            short = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
            self._send((call.number, "failed", short))
        finally:
            del self._calls[call.number]

    def _operation(self, name: str, choice: Choice) -> Callable[..., Any]:
        if name in OPERATIONS:
            operation: Callable[..., Any] = getattr(self._family(choice), name)
            return operation
        others: dict[str, Callable[..., Any]] = {
            "load": lambda: self._family(choice).card,
            "fetch": _fetch,
            "prepare": _prepare,
            "device": _device,
        }
        return others[name]

    def _family(self, choice: Choice) -> Loaded:
        """The family, loaded if it is not there: the process is new, or the caller dropped it."""
        with self._loading:
            if choice not in self._families:
                self._families[choice] = load(choice)
                # Objects of torch and transformers live as long as the process: exclude them from garbage collection.
                gc.collect()
                gc.freeze()
            return self._families[choice]


def _fetch(name: str, on_progress: Callable[[int, int], None]) -> None:
    from specdec_core.models import sources

    sources.fetch(name, on_progress)


def _prepare(choice: Choice, on_progress: Callable[[float | None, str], None]) -> None:
    conversion.prepare(choice, on_progress)


def _device(name: str) -> str:
    """The device that a choice's device means here."""
    from specdec_core.runtime.machine import choose_device

    return str(choose_device(name))
