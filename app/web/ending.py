"""Event streams end when the server is to stop: it waits for open ones, and a room's are open for a whole lesson."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_stopping: list[asyncio.Event] = []


def watch() -> None:
    """Notice the signals that stop the server; called in its event loop, once the server handles them."""
    if threading.current_thread() is not threading.main_thread():
        return  # a test's server: nobody else can handle signals
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    _stopping[:] = [stopping]
    for number in (signal.SIGTERM, signal.SIGINT):
        before: Any = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, before: Any = before) -> None:
            loop.call_soon_threadsafe(stopping.set)
            if callable(before):
                before(received, frame)

        signal.signal(number, handle)


class EndingStreams:
    """Ends event streams as if they were complete: browsers ask again, and a proxy sends them to another process."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; an event stream until the server is to stop."""
        if scope["type"] != "http" or not scope["path"].endswith("/events") or not _stopping:
            await self.app(scope, receive, send)
            return
        answer = asyncio.ensure_future(self.app(scope, receive, send))
        stop = asyncio.ensure_future(_stopping[0].wait())
        try:
            await asyncio.wait({answer, stop}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
                return
            answer.cancel()
            with suppress(asyncio.CancelledError):
                await answer
            await send({"type": "http.response.body", "body": b""})
        finally:
            stop.cancel()
            answer.cancel()
