"""A room over two web processes, and through kill -9 of one of them; the browsers are plain HTTP clients."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from app.decoding.in_child.forking import start

from ..load.room import Browser
from .loops import run
from .room_server import serve

START_S = 90
# A process that has imported everything, from which the others start at once.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([serve.__module__])


class Process:
    """A web process of the rooms; it can be killed and started again at the same address."""

    def __init__(self, environment: dict[str, str]) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self._environment = environment
        self.start()

    def start(self) -> None:
        self._running = FORKED.Process(target=serve, args=(self.port, self._environment), daemon=True)
        start(self._running)

    def kill(self) -> None:
        self._running.kill()
        self._running.join()

    async def ready(self) -> None:
        for _ in range(START_S * 10):
            assert self._running.is_alive()
            try:
                if (await Browser(self.port).ask("/r/assets/room.js"))[0] == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError("the process did not start")


@pytest.fixture
def two(place: Path | str) -> Iterator[tuple[Process, Process]]:
    """Two web processes with one database."""
    name = "SPECDEC_LIBRARY" if isinstance(place, Path) else "SPECDEC_DATABASE"
    if isinstance(place, Path):
        place.parent.mkdir(parents=True, exist_ok=True)
    processes = [Process({name: str(place), "SPECDEC_DEFAULT_MODELS": "tiny"}) for _ in range(2)]
    try:
        yield processes[0], processes[1]
    finally:
        for process in processes:
            process.kill()


@contextmanager
def following(*streams: tuple[Browser, str]) -> Iterator[None]:
    """As a page does it: the stream is opened again whenever it breaks."""

    async def stay(browser: Browser, path: str) -> None:
        while True:
            with suppress(OSError, EOFError):
                await browser.follow(path)
            await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(stay(browser, path)) for browser, path in streams]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def test_a_room_spans_processes_and_survives_kill_9(two: tuple[Process, Process]) -> None:
    """Catches: a page on another process that learns of a step late or never; a vote, an open question or a seat that
    a killed server takes with it; a student who has to press something to come back."""
    run(asyncio.wait_for(_through_a_class(*two), 3 * START_S))


async def _through_a_class(one: Process, other: Process) -> None:
    await asyncio.gather(one.ready(), other.ready())
    host = Browser(one.port)
    _, made = await host.ask("/r/start", {"lessons": ["race"], "language": "en"})
    code, secret = (json.loads(made)[key] for key in ("code", "host"))
    assert (await host.ask(f"/r/{code}/host", {"secret": secret}))[0] == 204
    near, far = Browser(one.port, code), Browser(other.port, code)
    for student in (near, far):
        assert (await student.ask(f"/r/{code}/join", {}))[0] == 200
    events = f"/r/{code}/events"
    with following((host, f"/r/{code}/host/events"), (near, events), (far, events)):
        await host.until(lambda view: view.get("here") == 2)
        await _drive(host, code, "open", lesson="race")  # the first reading of the lesson
        await _at("open", near, far, host)
        took = []
        for move, state in (("close", "locked"), ("discuss", "discuss"), ("again", "open")):
            began = time.perf_counter()
            await _drive(host, code, move)
            took.append(await _at(state, near, far, host) - began)
        assert min(took) < 1.0  # the others may have waited for a processor
        step = near.view["step"]
        assert (await near.ask(f"/r/{code}/vote", {"step": step, "given": "both"}))[0] == 204
        one.kill()
        host.view, near.view = {}, {}
        assert (await far.ask(f"/r/{code}/vote", {"step": step, "given": "code"}))[0] == 204
        one.start()
        await one.ready()
        await host.until(lambda view: view["answered"] == 2)
        await near.until(lambda view: view["state"] == "open")
        assert near.view["mine"]["2"]["given"] == "both"
        await _drive(host, code, "close")
        await _at("locked", near, far)
    _, export = await host.ask(f"/r/{code}/host/votes.json")
    assert [row["vote_2"] for row in json.loads(export)["rows"]] == ["both", "code"]


async def _drive(host: Browser, code: str, move: str, **more: str) -> None:
    status, answer = await host.ask(
        f"/r/{code}/host/drive", {"move": move, "step": host.view["step"], **more}
    )
    assert status == 204, answer


async def _at(state: str, *browsers: Browser) -> float:
    """When the last of these pages was in that state."""
    reached: list[Any] = await asyncio.gather(
        *(each.until(lambda view: view["state"] == state) for each in browsers)
    )
    return max(reached)
