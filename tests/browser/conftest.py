"""The real app in a separate process, and Chromium to look at it; each once per session."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page
from playwright.sync_api import expect as expect_soon

ROOT = Path(__file__).resolve().parents[2]
START_S = 240
RUN = re.compile("^Run")  # a pruned guess has it inside
STILL = "[data-test-script-state=notRunning]"  # Streamlit's page when no script of it runs
expect_soon.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


class Server:
    """The running app."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=10) as answer:
            body: dict[str, Any] = json.load(answer)
        return body

    def busy(self) -> int:
        runs = self.health()["runs"]
        return int(runs["loading"] + runs["queued"] + runs["running"])

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`python -m app` on a free port, with the tiny models, its default, warmed up."""
    with serving(tmp_path_factory.mktemp("server") / "log.txt", SPECDEC_DEFAULT_MODELS="tiny") as found:
        yield found


@contextmanager
def serving(log: Path, module: str = "app", **more: str) -> Iterator[Server]:
    """`python -m app` on a free port, once its bundled models are ready; `more` is added to its environment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = {**os.environ, **more, "PORT": str(port), "HOST": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
    environment["SPECDEC_LIBRARY"] = str(log.with_name("library.sqlite3"))
    with log.open("wb") as output:  # a file: a pipe that nobody reads would block the server
        process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    server = Server(process, f"http://127.0.0.1:{port}", log)
    try:
        until(
            lambda: process.poll() is not None or _ready(server), START_S, lambda: server.log()[-3000:], 0.2
        )
        assert process.poll() is None, server.log()[-3000:]
        yield server
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def streamlit_alone(page: Path) -> Iterator[str]:
    """The address of a page that Streamlit serves without the app."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(page), "--server.headless", "true"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: process.poll() is not None or _answers(address), START_S, every=0.1)
        assert process.poll() is None
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}_stcore/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _ready(server: Server) -> bool:
    try:
        return bool(server.health()["models"] == "ready")
    except OSError:
        return False


def _matters(said: ConsoleMessage) -> bool:
    """An error or a warning, except the one that Streamlit's front end causes on every page opened by its own address.

    It first looks for the server one level too deep (/library/_stcore/health), and the browser reports that as
    missing: https://github.com/streamlit/streamlit/issues/7074.
    """
    searching = re.search(r"/[a-z]+/_stcore/(health|host-config)$", said.location.get("url", ""))
    return said.type in ("error", "warning") and not searching


class Sight(list[str]):
    """The browser's complaints on the pages of one test."""

    def watch(self, page: Page) -> None:
        page.on("console", lambda said: self.append(said.text) if _matters(said) else None)
        page.on("pageerror", lambda error: self.append(str(error)))


@pytest.fixture
def complaints() -> Iterator[Sight]:
    """Fails the test if the browser's console had an error or a warning."""
    sight = Sight()
    yield sight
    assert sight == []


Come = Callable[..., Page]
"""An empty page of a visitor who was never here; it takes `viewport` and what a page can emulate of media."""

VISITOR: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
NOTHING: Any = {"cookies": [], "origins": []}


class Visitors:
    """The browser's contexts, used by one test after another: a visitor leaves neither cookies nor stored data, but
    what the browser has cached of Streamlit's scripts stays. A fresh context reads and compiles them anew."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[BrowserContext] = []

    @contextmanager
    def visits(self) -> Iterator[Come]:
        """Pages of visitors who do not know each other; afterwards all are closed."""
        taken: list[BrowserContext] = []

        def come(**options: Any) -> Page:
            taken.append(self._free.pop() if self._free else self._browser.new_context())
            page = taken[-1].new_page()
            media = {**VISITOR, **options}
            page.set_viewport_size(media.pop("viewport"))
            page.emulate_media(**media)
            page.set_default_timeout(20_000)
            return page

        try:
            yield come
        finally:
            for context in reversed(taken):  # the first has cached most, and is the next one's first
                for page in context.pages:
                    page.close()
                context.set_offline(False)
                context.set_storage_state(NOTHING)
                self._free.append(context)


@pytest.fixture(scope="session")
def visitors(browser: Browser) -> Visitors:
    return Visitors(browser)


@pytest.fixture
def come(visitors: Visitors) -> Iterator[Come]:
    """Visitors of one test."""
    with visitors.visits() as found:
        yield found


@pytest.fixture
def open_page(server: Server, visitors: Visitors, complaints: Sight) -> Iterator[Callable[..., Page]]:
    """Open the app in a fresh session; afterwards everything is closed and all runs end."""
    with visitors.visits() as come:

        def open_one(address: str = "/", **options: Any) -> Page:
            page = come(**options)
            complaints.watch(page)
            page.goto(server.url + address)
            page.get_by_role("button", name=RUN).wait_for()
            return page

        yield open_one
    until(lambda: server.busy() == 0, 10)


class Expected:
    """Playwright's assertions, which look ten times a second; given more time than a turn, they look twice. The second
    half of the time is one turn: on a busy machine one look may take longer than a short one."""

    TURN_MS = 2_400

    def __init__(self, actual: Locator | Page) -> None:
        self._now: Any = expect_soon(actual)

    def __getattr__(self, name: str) -> Callable[..., None]:
        look = getattr(self._now, name)

        def wait(*wanted: Any, timeout: float = 20_000, **more: Any) -> None:
            end = time.monotonic() + timeout / 1000
            while (left := (end - time.monotonic()) * 1000) > max(timeout / 2, self.TURN_MS):
                try:
                    return look(*wanted, timeout=self.TURN_MS, **more)
                except AssertionError:
                    pass
            look(*wanted, timeout=max(left, 1), **more)

        return wait


expect = Expected


def until(
    fact: Callable[[], bool],
    seconds: float,
    why: Callable[[], str] = lambda: "it did not come to pass",
    every: float = 0.02,
) -> None:
    """Wait for a condition, looking again every so many seconds."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, why()
        time.sleep(every)
