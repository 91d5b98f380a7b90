"""A slow connection: what the app answers is kept back until a test lets it go, complete and in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Line:
    """`port` is its near end. While it is `slow`, what comes from the far end waits."""

    loop: asyncio.AbstractEventLoop
    port: int = 0
    slow: bool = False
    last: float = 0.0  # when something came from the far end
    _waiting: list[tuple[_End, bytes | None]] = field(default_factory=list)

    def come(self, end: _End, data: bytes | None) -> None:
        """Something came from the far end for `end`; None is its end."""
        self.last = time.monotonic()
        if self.slow:
            self._waiting.append((end, data))
        else:
            end.say(data)

    @property
    def holds(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._waiting)

    def quiet_s(self) -> float:
        """How long nothing has come from the far end."""
        return time.monotonic() - self.last

    def let_go(self) -> None:
        """From now on the line is fast; what is on its way arrives."""
        self.last = time.monotonic()
        self.loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self.slow = False
        for end, data in self._waiting:
            end.say(data)
        self._waiting.clear()


class _End(asyncio.Protocol):
    """One end of a connection: what it receives is said at the other one."""

    def __init__(self, opened: Callable[[_End], None], pass_on: Callable[[_End, bytes | None], None]) -> None:
        self.opened, self.pass_on = opened, pass_on
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.early: list[bytes] = []  # received before there was another end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.pass_on(self.other, data)

    def say(self, data: bytes | None) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if data is None:
            self.transport.close()
        else:
            self.transport.write(data)

    def connection_lost(self, reason: Exception | None) -> None:
        if self.other is not None:
            self.pass_on(self.other, None)


@contextlib.contextmanager
def slow_line(port: int) -> Iterator[Line]:
    """A connection on this machine to its `port`; initially fast."""
    loop = asyncio.new_event_loop()
    line = Line(loop)
    ends: list[_End] = []
    dials: set[asyncio.Task[None]] = set()

    async def dial(near: _End) -> None:
        _, far = await loop.create_connection(lambda: _End(ends.append, line.come), "127.0.0.1", port)
        near.other, far.other = far, near
        for data in near.early:
            far.say(data)

    def answered(near: _End) -> None:
        ends.append(near)
        dials.add(loop.create_task(dial(near)))

    async def take_down() -> None:
        server.close()
        for end in ends:
            if end.transport is not None:
                end.transport.abort()

    thread = threading.Thread(target=loop.run_forever, daemon=True)  # this one runs Playwright's loop
    thread.start()
    listening = loop.create_server(lambda: _End(answered, _End.say), "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(listening, loop).result(10)
    try:
        line.port = int(server.sockets[0].getsockname()[1])
        yield line
    finally:
        asyncio.run_coroutine_threadsafe(take_down(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
