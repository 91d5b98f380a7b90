"""A slow connection: messages between the browser and the app arrive late, but complete and in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Line:
    """`port` is its near end; `delay_s` applies in either direction and may grow while it is used."""

    port: int = 0
    delay_s: float = 0.0


class _End(asyncio.Protocol):
    """One end of a connection: what it receives is sent at the other end a little later."""

    def __init__(self, line: Line, opened: Callable[[_End], None]) -> None:
        self.line, self.opened = line, opened
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.early: list[bytes] = []  # received before there was another end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.opened(self)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self.line.delay_s, self._say, data)

    def _say(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def connection_lost(self, reason: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            asyncio.get_running_loop().call_later(self.line.delay_s, self.other.transport.close)


@contextlib.contextmanager
def slow_line(port: int) -> Iterator[Line]:
    """A connection on this machine to its `port`; initially without delay."""
    loop = asyncio.new_event_loop()
    line = Line()
    ends: list[_End] = []
    dials: set[asyncio.Task[None]] = set()

    async def dial(near: _End) -> None:
        _, far = await loop.create_connection(lambda: _End(line, ends.append), "127.0.0.1", port)
        near.other, far.other = far, near
        for data in near.early:
            near._say(data)

    def answered(near: _End) -> None:
        ends.append(near)
        dials.add(loop.create_task(dial(near)))

    async def take_down() -> None:
        server.close()
        for end in ends:
            if end.transport is not None:
                end.transport.abort()
        await asyncio.sleep(2 * line.delay_s)  # until everything has arrived

    thread = threading.Thread(target=loop.run_forever, daemon=True)  # this one runs Playwright's loop
    thread.start()
    listening = loop.create_server(lambda: _End(line, answered), "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(listening, loop).result(10)
    try:
        line.port = int(server.sockets[0].getsockname()[1])
        yield line
    finally:
        asyncio.run_coroutine_threadsafe(take_down(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
