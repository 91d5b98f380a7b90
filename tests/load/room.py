"""`python -m tests.load.room`: a class in a room, as event streams and votes without browsers.

Starts the app, lets students join, opens questions, and measures: from the host's press to a student's page,
from a vote to the host's count, acknowledged votes that are not in the export, and the server's memory per student.
Beside the class, three real browsers follow the room, and a visitor of the lab has one live run after the other
(`--browsers 0 --no-runs` for the class alone).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from . import room_beside

ROOT = Path(__file__).resolve().parents[2]
START_S = 180
LATE_S = 120.0
LESSONS = ("race", "coin", "length")


class Browser:
    """What one browser would send: requests with its cookies, and one stream."""

    def __init__(self, port: int, code: str = "") -> None:
        self.port, self.code, self.cookies = port, code, ""
        self.view: dict[str, Any] = {}
        self.at = 0.0
        self.news = asyncio.Event()

    async def ask(self, path: str, body: object = None) -> tuple[int, bytes]:
        """One request: GET, or POST with a body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            self._send(writer, path, body)
            await writer.drain()
            status, headers = await self._head(reader)
            content = await reader.read()
            return status, _unchunked(content) if "chunked" in headers.get(
                "transfer-encoding", ""
            ) else content
        finally:
            writer.close()

    def _send(self, writer: asyncio.StreamWriter, path: str, body: object = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Cookie: {self.cookies}",
            f"Content-Length: {len(content)}",
            "Content-Type: application/json",
            "Connection: close",
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(": ")
            if name.lower() == "set-cookie":
                self.cookies = value.split(";")[0]
            headers[name.lower()] = value.lower()
        return int(head[0].split()[1]), headers

    async def follow(self, path: str) -> None:
        """Read the stream until cancelled; `view` is the latest."""
        async for view in self._views(path):
            self.view, self.at = view, time.perf_counter()
            self.news.set()

    async def _views(self, path: str) -> AsyncIterator[dict[str, Any]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            self._send(writer, path)
            await self._head(reader)
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            writer.close()

    async def until(self, fact: Any, seconds: float = 30.0) -> float:
        """When a view first had this; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not (self.view and fact(self.view)):
                self.news.clear()
                await self.news.wait()
        return self.at


@dataclass
class Times:
    """What was measured, in seconds: from a change to students and to browsers' screens, from votes to the host."""

    changes: list[float] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)
    votes: list[float] = field(default_factory=list)


def _unchunked(content: bytes) -> bytes:
    found = b""
    while content:
        size, _, content = content.partition(b"\r\n")
        found, content = found + content[: int(size, 16)], content[int(size, 16) + 2 :]
    return found


async def measure(
    port: int, pid: int, students: int, spread_s: float, browsers: int = 0, runs: bool = False
) -> dict[str, Any]:
    """One room with that many students, who vote within `spread_s` of each question."""
    host = Browser(port)
    _, made = await host.ask("/r/start", {"lessons": list(LESSONS), "language": "en"})
    code, secret = (json.loads(made)[key] for key in ("code", "host"))
    await host.ask(f"/r/{code}/host", {"secret": secret})
    streams = [asyncio.create_task(host.follow(f"/r/{code}/host/events"))]
    await host.until(lambda view: True)
    server = psutil.Process(pid)
    before = server.memory_info().rss
    pupils = [Browser(port, code) for _ in range(students)]
    for start in range(0, students, 20):
        await asyncio.gather(*(each.ask(f"/r/{code}/join", {}) for each in pupils[start : start + 20]))
    streams += [asyncio.create_task(each.follow(f"/r/{code}/events")) for each in pupils]
    await asyncio.gather(*(each.until(lambda view: True) for each in pupils))
    await host.until(lambda view: view["here"] >= students)
    memory = (server.memory_info().rss - before) / students
    found = Times()
    async with AsyncExitStack() as beside:
        pages = (
            await beside.enter_async_context(room_beside.browsers(port, code, browsers)) if browsers else []
        )
        races = await beside.enter_async_context(room_beside.runs(port)) if runs else []
        await _lessons(host, pupils, spread_s, pages, found)
        acknowledged = len(found.votes) + await _run(host, pupils, found.changes)
    _, export = await host.ask(f"/r/{code}/host/votes.json")
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    await host.ask(f"/r/{code}/host/delete", {})
    return {
        "students": students,
        "votes": acknowledged,
        "lost_votes": acknowledged - len(json.loads(export)["rows"]),
        "change_to_student_s": _figures(found.changes),
        "vote_to_host_s": _figures(found.votes),
        **({"browsers": browsers, "change_to_browser_s": _figures(found.drawn)} if browsers else {}),
        **({"live_runs_meanwhile": len(races)} if runs else {}),
        "memory_per_student_kb": round(memory / 1000, 1),
    }


async def _lessons(
    host: Browser, pupils: Sequence[Browser], spread_s: float, pages: Sequence[Any], found: Times
) -> None:
    """Three lessons, each asked, voted on, closed and revealed."""
    for lesson in LESSONS:
        for move in ("open", "close", "reveal"):
            if pages:
                await asyncio.sleep(room_beside.QUIET_S)
            began = time.time()
            found.changes += await _step(host, pupils, move, lesson)
            found.drawn += await room_beside.drawn(pages, began)
            if move == "open":
                found.votes += await _vote(host, pupils, spread_s)


async def _run(host: Browser, pupils: Sequence[Browser], changes: list[float]) -> int:
    """A run that the class follows, with one vote of everybody; returns how many were acknowledged."""
    changes += await _step(host, pupils, "run", prompt="Once upon a time")
    asked = host.view["step"]
    async with asyncio.timeout(LATE_S):  # the run waits in the line for the decoder
        while (await _press(host, "ask"))[0] != 204:
            await asyncio.sleep(0.5)
    await asyncio.gather(*(each.until(lambda view: view["step"] > asked) for each in [host, *pupils]))
    step = host.view["step"]
    votes = (each.ask(f"/r/{each.code}/vote", {"step": step, "given": "accepted"}) for each in pupils)
    found = await asyncio.gather(*votes)
    changes += await _step(host, pupils, "verdict")
    changes += await _step(host, pupils, "wait")
    return sum(status == 204 for status, _ in found)


async def _step(
    host: Browser, pupils: Sequence[Browser], move: str, lesson: str = "", **more: str
) -> list[float]:
    step, began = host.view["step"], time.perf_counter()
    status, answer = await _press(host, move, lesson, **more)
    assert status == 204, answer
    at = await asyncio.gather(*(each.until(lambda view: view["step"] > step) for each in [host, *pupils]))
    return [each - began for each in at[1:]]


async def _press(host: Browser, move: str, lesson: str = "", **more: str) -> tuple[int, bytes]:
    step = host.view["step"]
    return await host.ask(
        f"/r/{host.code or _code(host)}/host/drive",
        {"move": move, "lesson": lesson or host.view["lesson"], "step": step, **more},
    )


def _code(host: Browser) -> str:
    return host.cookies.partition("=")[0].rpartition("_")[2]


async def _vote(host: Browser, pupils: Sequence[Browser], spread_s: float) -> list[float]:
    """Everybody votes; from each sending to the host's count that has it, in the order of the acknowledgements."""
    sent: list[float] = []
    counted: list[float] = []

    async def count() -> None:
        while len(counted) < len(pupils):
            host.news.clear()
            counted.extend([host.at] * (host.view["answered"] - len(counted)))
            if len(counted) < len(pupils):
                await host.news.wait()

    async def one(each: Browser) -> None:
        await asyncio.sleep(random.uniform(0, spread_s))
        began = time.perf_counter()
        view = each.view
        keys = [key for key, _ in view["options"]]
        given = (
            view["scale"]["low"]
            if view["kind"] == "number"
            else keys[:1]
            if view["kind"] == "several"
            else keys[0]
        )
        status, answer = await each.ask(f"/r/{each.code}/vote", {"step": view["step"], "given": given})
        assert status == 204, answer
        sent.append(began)

    counting = asyncio.create_task(count())
    await asyncio.gather(*map(one, pupils))
    await asyncio.wait_for(counting, 30)
    return [max(0.0, at - began) for at, began in zip(counted, sent, strict=True)]


def _figures(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
        for name, share in (("median", 0.5), ("p99", 0.99), ("worst", 1.0))
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--spread", type=float, default=10.0, help="seconds within which everybody votes")
    parser.add_argument("--browsers", type=int, default=3, help="real browsers that follow the room")
    parser.add_argument(
        "--runs", action=argparse.BooleanOptionalAction, default=True, help="live runs beside"
    )
    given = parser.parse_args()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log.txt").open("wb") as log:
        more = {
            "PORT": str(port),
            "SPECDEC_LIBRARY": str(Path(folder, "library.sqlite3")),
            "SPECDEC_DEFAULT_MODELS": "tiny",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "app"], cwd=ROOT, env={**os.environ, **more}, stdout=log, stderr=log
        )
        try:
            asyncio.run(_ready(port))
            asyncio.run(
                measure(port, process.pid, 2, 0.1)
            )  # reads the lessons, which is no student's time or memory
            figures = asyncio.run(
                measure(port, process.pid, given.students, given.spread, given.browsers, given.runs)
            )
            print(json.dumps(figures, indent=2))
        finally:
            process.terminate()
            process.wait(20)


async def _ready(port: int) -> None:
    """Wait until the server and its models answer: what they load is no student's memory."""
    for _ in range(START_S):
        try:
            status, body = await Browser(port).ask("/healthz")
            if status == 200 and json.loads(body)["models"] == "ready":
                return
        except (OSError, asyncio.IncompleteReadError):
            pass
        await asyncio.sleep(1)
    raise SystemExit("The server did not start.")


if __name__ == "__main__":
    main()
