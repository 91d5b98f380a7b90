"""The decoder in a child process, so that no page disturbs its clock and its crash is a sentence.

The child is forked from a small server process that has imported torch and transformers and computes nothing, so a new
one is there at once. When a child dies, its calls end with `DecoderLost`, another takes its place and loads the same
families again.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from app.decoding.api import DecoderLost, IsCancelled
from app.decoding.models import ModelChoice
from app.decoding.remote import DECODER_DIED, Answers, Caller, Remote
from specdec_core.foundations import errors

from . import child, forking

log = logging.getLogger(__name__)

END_S = 2.0  # how long a child may take to end by itself
CLOSING = "The server is shutting down."
YOUNG_S = 5.0  # a child that dies younger than this may have died of a family: none is loaded again unasked


class Child:
    """One child process and the calls it is answering."""

    def __init__(self, on_loss: Callable[[Child], None]) -> None:
        context = forking.context()
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=child.main, args=(theirs,), name="decoder", daemon=True)
        forking.start(self.process)
        theirs.close()
        self.born = time.monotonic()
        self._on_loss = on_loss
        self._sending, self._guard = threading.Lock(), threading.Lock()
        self._numbers = count()
        self._calls: dict[int, Answers] = {}
        self.lost = self._ending = False
        atexit.register(self.end)
        threading.Thread(target=self._receive, name="decoder-pipe", daemon=True).start()

    def open(self, *call: Any) -> tuple[int, Answers]:
        """Start a call; its answers come into the queue."""
        answers: Answers = queue.SimpleQueue()
        with self._guard:
            number = next(self._numbers)
            if self.lost:
                answers.put(("lost", None))
            else:
                self._calls[number] = answers
        self.send("call", number, *call)
        return number, answers

    def send(self, *message: Any) -> None:
        """Send a message; if the child has ended, its calls are told so."""
        try:
            with self._sending:
                self._pipe.send(message)
        except OSError:
            pass

    def forget(self, number: int) -> None:
        """No more answers to this call are wanted."""
        with self._guard:
            self._calls.pop(number, None)

    def place(self, number: int) -> int:
        """A child begins a call at once."""
        return 0

    def end(self) -> None:
        """End the process, which does so itself once its pipe is shut, with what it has started."""
        self._ending = True
        atexit.unregister(self.end)
        with suppress(OSError), socket.socket(fileno=os.dup(self._pipe.fileno())) as pipe:
            pipe.shutdown(socket.SHUT_RDWR)
        self.process.join(END_S)
        if self.process.is_alive():
            self.process.kill()

    def _receive(self) -> None:
        try:
            while True:
                number, kind, value = self._pipe.recv()
                with self._guard:
                    answers = self._calls.get(number)
                if answers is not None:
                    answers.put((kind, value))
        except (EOFError, OSError):
            pass
        with self._guard:
            self.lost = True
            left = list(self._calls.values())
        for answers in left:
            answers.put(("lost", CLOSING if self._ending else None))
        self._on_loss(self)


class Decoder(Caller):
    """A child process that is replaced when it dies."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._families: dict[ModelChoice, None] = {}  # to be loaded again by the next child
        self._starting = threading.Lock()
        self._closed = self._loading_again = False
        self.lost = 0  # children that died

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        running = self._child
        return running.process.pid if running else None

    @property
    def ready(self) -> bool:
        """Whether a process runs that has loaded models."""
        running = self._child
        return running is not None and not running.lost and bool(self._families) and not self._loading_again

    def load(self, choice: ModelChoice) -> Remote:
        """Load a choice's models.

        Raises:
            ModelError: one sentence, if they are unavailable.
        """
        card = self.call("load", choice)
        self._families[choice] = None
        return Remote(self, choice, card)

    def drop(self, choice: ModelChoice) -> None:
        """Unload a choice's models, once no call uses them any more."""
        if choice in self._families:
            del self._families[choice]
            if self._child:
                self._child.send("drop", -1, choice)

    def close(self) -> None:
        """End the process, and start no other."""
        self._closed = True
        if not self._starting.acquire(timeout=0.2):  # one is being started
            forking.end()
            self._starting.acquire()
        try:
            if self._child:
                self._child.end()
        finally:
            self._starting.release()

    def _running(self) -> Child:
        with self._starting:
            if self._closed:
                raise DecoderLost(CLOSING)
            if self._child is None or self._child.lost:
                try:
                    self._child = Child(self._replace)
                except (EOFError, OSError) as error:  # what it is forked from has ended
                    if self._closed:
                        raise DecoderLost(CLOSING) from None
                    log.error("no decoder could be started: %s", str(error) or type(error).__name__)
                    raise DecoderLost(DECODER_DIED) from None
            return self._child

    def _replace(self, dead: Child) -> None:
        if self._closed:
            return
        self.lost += 1
        dead.process.join()
        log.error("the decoder's process ended with exit code %s; starting another", dead.process.exitcode)
        if time.monotonic() - dead.born < YOUNG_S:
            return
        self._loading_again = True
        for choice in list(self._families):
            try:
                self.call("load", choice)
            except errors.SpecdecError as error:
                log.warning("%s could not be loaded again: %s", choice.target or "the bundled models", error)
        self._loading_again = False


class Local:
    """One decoder per device: the usual one, and one for each other device that somebody chooses."""

    places = 1

    def __init__(self) -> None:
        self._decoders = {"auto": Decoder()}
        self._usual = ""
        self._guard = threading.Lock()

    def decoder(self, device: str = "auto") -> Decoder:
        """The decoder of a device."""
        if device != "auto":
            self._usual = self._usual or str(self._decoders["auto"].call("device", ModelChoice(), "auto"))
        with self._guard:
            return self._decoders.setdefault("auto" if device in ("auto", self._usual) else device, Decoder())

    def load(self, choice: ModelChoice) -> Remote:
        """Load a choice's models on its device."""
        return self.decoder(choice.device).load(choice)

    def drop(self, choice: ModelChoice) -> None:
        """Unload them."""
        self.decoder(choice.device).drop(choice)

    def fetch(
        self, name: str, most: int, on_progress: Callable[[int, int], None], cancelled: IsCancelled
    ) -> None:
        """Download what a name needs, reporting the bytes so far and in all."""
        self.decoder().call("fetch", ModelChoice(), name, most, on_progress=on_progress, cancelled=cancelled)

    def prepare(self, choice: ModelChoice, on_progress: Callable[[float | None, str], None]) -> None:
        """Convert what a choice needs and this machine only has as a GGUF file; usually there is nothing to do."""
        self.decoder().call("prepare", ModelChoice(), choice, on_progress=on_progress)

    def needs(self, choice: ModelChoice) -> tuple[str, bool]:
        """What a choice's models need of the memory, and whether that fits."""
        found: tuple[str, bool] = self.decoder().call("needs", ModelChoice(), choice)
        return found

    def inspect(self, name: str) -> dict[str, Any]:
        """What is in the files of a model or a head."""
        found: dict[str, Any] = self.decoder().call("inspect", ModelChoice(), name)
        return found

    def lost(self) -> int:
        """How many decoder processes have died."""
        return sum(decoder.lost for decoder in self._decoders.values())

    def ready(self) -> int:
        """How many decoder processes have loaded models."""
        return sum(decoder.ready for decoder in self._decoders.values())

    def close(self) -> None:
        """End all processes."""
        for decoder in self._decoders.values():
            decoder.close()
