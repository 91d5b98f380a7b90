"""What runs in the cluster of `serve`: replicas that load models and answer calls, and each web process's mailbox."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ray import serve

from app.decoding.calls import COMPUTING, ENDING_KINDS, Call, operation
from app.decoding.device_queue import DeviceQueue
from app.decoding.in_child.forking import SPIN
from app.decoding.loaded import Loaded, load
from app.decoding.models import ModelChoice
from specdec_core.foundations.errors import SpecdecError

log = logging.getLogger(__name__)


def model_id(choice: ModelChoice) -> str:
    """A choice as the text by which Ray Serve knows which replicas have its models."""
    return json.dumps(asdict(choice), sort_keys=True)


class Mailbox:
    """What one web process says to calls that are being answered: words, cancellations, permits. It ends with it."""

    def __init__(self) -> None:
        self._boxes: dict[int, asyncio.Queue[tuple[Any, ...]]] = {}

    async def put(self, number: int, *message: Any) -> None:
        """Say something to a call."""
        self._box(number).put_nowait(message)

    async def take(self, number: int) -> tuple[Any, ...]:
        """The next message to a call, once there is one; empty after its end."""
        return await self._box(number).get()

    async def close(self, number: int) -> None:
        """Nothing more will be said to this call."""
        self._boxes.pop(number, asyncio.Queue()).put_nowait(())

    def _box(self, number: int) -> asyncio.Queue[tuple[Any, ...]]:
        return self._boxes.setdefault(number, asyncio.Queue())


class Replica:
    """One process with models. Calls that compute take turns."""

    load = staticmethod(load)

    async def __init__(self, warm: Sequence[ModelChoice], keep: int) -> None:  # type: ignore[misc]  # Ray awaits it
        """`warm` is loaded before the first call; up to `keep` families stay loaded, the last used."""

        async def bring(name: str) -> Loaded:
            family = await asyncio.to_thread(self.load, ModelChoice(**json.loads(name)))
            gc.collect()
            gc.freeze()  # as in `child`
            return family

        for name, value in SPIN.items():
            os.environ.setdefault(name, value)
        self._line = DeviceQueue()
        self._family = serve.multiplexed(max_num_models_per_replica=keep)(bring)
        for choice in warm:
            try:
                await self._family(model_id(choice))
            except SpecdecError as error:
                log.warning("%s could not be loaded: %s", choice.target or "the bundled models", error)

    async def answer(
        self,
        mailbox: Any,
        number: int,
        name: str,
        choice: ModelChoice,
        given: Any,
        hooks: tuple[str, ...],
        paced: bool,
    ) -> AsyncIterator[tuple[str, Any]]:
        """Answer the call that this number has in the mailbox; see `calls`. The first answer says who answers."""
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

        def send(*answer: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it the process
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        def family() -> Loaded:
            found: Loaded = asyncio.run_coroutine_threadsafe(self._family(model_id(choice)), loop).result()
            return found

        call = Call(send, self._line if name in COMPUTING else None)
        hearing = loop.create_task(_hear(mailbox, number, call))
        try:
            yield "begun", os.getpid()
            work = (lambda: operation(name, choice, family), given, hooks, paced)
            threading.Thread(target=call.answer, args=work, name=f"call-{number}", daemon=True).start()
            kind = ""
            while kind not in ENDING_KINDS:
                kind, value = await answers.get()
                yield kind, value
        finally:
            call.receive("cancel")  # of one that nobody wants any more
            hearing.cancel()


async def _hear(mailbox: Any, number: int, call: Call) -> None:
    """Pass on what the caller says, until it says no more; if its process has ended, cancel the call."""
    try:
        while message := await mailbox.take.remote(number):
            call.receive(*message)
    except asyncio.CancelledError:
        raise
    except Exception:  # of Ray's: the mailbox has ended
        call.receive("cancel")
