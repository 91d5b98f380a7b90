"""The decoder's process: loads models, and answers the calls that `local` sends through a pipe.

A call arrives with its number, and so do its answers. Each runs on a thread of its own, because one that waits for its
visitor's words must not delay others; that only one computes at a time is the caller's business.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from app.decoding import preparing
from app.decoding.calls import Call, operation
from app.decoding.loaded import Loaded, load
from app.decoding.models import ModelChoice
from app.monitoring import log as server_log


def main(pipe: Connection) -> None:
    """Serve calls until the other end of the pipe is closed: then its process has ended, and so does this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C ends the web server, which closes the pipe
    server_log.start()
    try:
        ServedFamilies(pipe).serve()
    except (EOFError, OSError):
        pass
    finally:
        preparing.close()
        os._exit(0)  # at once, whatever is being computed


class ServedFamilies:
    """The families of this process, and the calls being answered."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._loading = threading.Lock()
        self._families: dict[ModelChoice, Loaded] = {}
        self._calls: dict[int, Call] = {}

    def serve(self) -> None:
        """Read messages until the pipe is closed.

        Raises:
            EOFError, OSError: then.
        """
        while True:
            kind, number, *rest = self._pipe.recv()
            if kind == "call":
                self._calls[number] = Call(lambda *answer, number=number: self._send(number, *answer))
                threading.Thread(target=self._answer, args=(number, *rest), name=f"call-{number}").start()
            elif kind == "drop":
                self._families.pop(rest[0], None)
            elif call := self._calls.get(number):  # else it was answered meanwhile
                call.receive(kind, *rest)

    def _send(self, *message: Any) -> None:
        with self._sending, suppress(OSError):  # nobody is left to tell
            self._pipe.send(message)

    def _answer(
        self, number: int, name: str, choice: ModelChoice, given: Any, hooks: tuple[str, ...], paced: bool
    ) -> None:
        try:
            self._calls[number].answer(
                lambda: operation(name, choice, lambda: self._family(choice)), given, hooks, paced
            )
        finally:
            del self._calls[number]

    def _family(self, choice: ModelChoice) -> Loaded:
        """The family, loaded if it is not there: the process is new, or the caller dropped it."""
        with self._loading:
            if choice not in self._families:
                self._families[choice] = load(choice)
                # Objects of torch and transformers live as long as the process: exclude them from garbage collection.
                gc.collect()
                gc.freeze()
            return self._families[choice]
