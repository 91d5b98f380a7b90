"""The page of all tests, and a small server in place of the app: the player's files, traces, an event stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.theme import CSS
from tests.player.samples import plain_trace, spec_trace

HERE = Path(__file__).parent
STATIC = HERE.parent.parent / "app" / "player" / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".json": "application/json"}

COMMITTED = """at => [...shadow.querySelectorAll(`.lane[data-lane="${at}"] .committed .tok`)]
  .map(token => token.textContent).join("")"""
# The elements with the attributes a reader or a program could see; the slider's position and inline widths included.
# Once the player has scrolled, which it does in a frame.
SERIALISED = "() => new Promise(requestAnimationFrame).then(() => shadow.querySelector('.player').outerHTML)"


def _traces() -> dict[str, str]:
    return {"/traces/plain.json": plain_trace().to_json(), "/traces/spec.json": spec_trace().to_json()}


@dataclass(slots=True)
class Server:
    """What is served, initially the two sample traces, and what was requested."""

    url: str = ""
    files: dict[str, str] = field(default_factory=_traces)
    streams: dict[str, Callable[[int], Iterable[tuple[int | None, dict[str, Any]]]]] = field(
        default_factory=dict
    )
    answers: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # posted bodies and their paths
    refusal: str = ""  # if set, no answer is taken
    resumed: list[int] = field(default_factory=list)  # the last event ids sent by reconnecting browsers


class _Handler(BaseHTTPRequestHandler):
    state: Server
    protocol_version = "HTTP/1.1"  # one connection for many files

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in self.state.streams:
            self._stream(path)
            return
        kept = "no-store"
        if path in self.state.files:
            body, kind = self.state.files[path].encode(), Path(path).suffix or ".json"
        elif path == "/":
            body, kind = (HERE / "page.html").read_bytes().replace(b"/* theme */", CSS.encode()), ".html"
        elif path == "/player/player.css":  # the component's style: all style sheets in one
            body, kind = (
                b"\n".join(sheet.read_bytes() for sheet in sorted(STATIC.glob("style/*.css"))),
                ".css",
            )
        elif path.startswith("/player/") and (file := STATIC / path.removeprefix("/player/")).is_file():
            body, kind, kept = file.read_bytes(), file.suffix, "max-age=3600"  # cached for the next test
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[kind]}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", kept)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.state.refusal:
            # The player reads it like the app's refusals; a status of 4xx would also be a console error.
            self.send_response(200)
            refused = json.dumps({"error": self.state.refusal}).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(refused)))
            self.end_headers()
            self.wfile.write(refused)
            return
        self.state.answers.append((self.path, body))
        self.send_response(204)
        self.end_headers()

    def _stream(self, path: str) -> None:
        last = int(self.headers.get("Last-Event-ID", "-1"))
        if last >= 0:
            self.state.resumed.append(last)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")  # its end is the stream's
        self.end_headers()
        self.wfile.write(b"retry: 30\n\n")
        for id, message in self.state.streams[path](last):
            name = "event: waiting\n" if id is None else f"id: {id}\n"
            self.wfile.write(f"{name}data: {json.dumps(message)}\n\n".encode())
            self.wfile.flush()


@contextmanager
def serving() -> Iterator[type[_Handler]]:
    """A running server; what it serves is its `state`."""
    handler = type("Handler", (_Handler,), {"state": Server()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        handler.state.url = f"http://127.0.0.1:{http.server_address[1]}/"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield handler
        http.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def _serving() -> Iterator[type[_Handler]]:
    with serving() as handler:
        yield handler


@pytest.fixture
def server(_serving: type[_Handler]) -> Server:
    """The server in its initial state."""
    _serving.state = Server(_serving.state.url)
    return _serving.state


@dataclass(slots=True)
class _Tab:
    """The page of all tests, and its errors."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    at: str = ""  # the server it is fresh from


@pytest.fixture(scope="session")
def _tab(browser: Browser) -> Iterator[_Tab]:
    tab = _Tab(browser.new_page())
    page, complaints = tab.page, tab.complaints
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("dialog", lambda dialog: (complaints.append("a dialog opened"), dialog.dismiss()))
    yield tab
    page.close()


@pytest.fixture
def page(_tab: _Tab, server: Server) -> Iterator[Page]:
    """The test page as if just loaded, ready to open a player; any browser error fails the test."""
    opened = _tab.page
    opened.set_default_timeout(60_000)  # the time that a test allows is for what it tests
    if _tab.at != server.url:
        opened.goto(server.url)
        opened.wait_for_function("window.ready")
    _tab.at = ""  # a test that fails leaves nothing to the next one
    opened.set_viewport_size({"width": 1024, "height": 900})
    opened.emulate_media(color_scheme="light", reduced_motion="no-preference")
    opened.mouse.move(0, 0)
    _tab.complaints.clear()
    opened.set_default_timeout(5_000)
    yield opened
    opened.set_default_timeout(60_000)
    opened.unroute_all()
    opened.evaluate("begin_anew()")
    assert _tab.complaints == []
    _tab.at = server.url


# The player scrolls what it has drawn in the next frame.
FRAME = "() => new Promise(requestAnimationFrame)"


END = 99_999  # a round after the last one


def data(**changes: Any) -> dict[str, Any]:
    """The page's data for the player."""
    return {
        "mode": "replay",
        "code": "player/player.js",
        "events": None,
        "traces": [
            {"label": "Plain", "url": "/traces/plain.json"},
            {"label": "Draft model", "url": "/traces/spec.json"},
        ],
        "provenance": "measured",
        "provenance_note": "this machine, this run",
        "cursor": {"round": None if changes.get("autoplay") else END, "node": None},
        "autoplay": False,
        "prompt": None,
        **changes,
    }


def open_player(page: Page, **changes: Any) -> None:
    """Mount a player and wait until it shows something and has scrolled to it."""
    wanted = data(**changes)
    # As one text: Playwright would take a whole trace apart, value by value, which takes seconds.
    page.evaluate("data => open_player(JSON.parse(data))", json.dumps(wanted))
    ready = ".stage:not([hidden]) .lane" if wanted["traces"] else ".notice:not([hidden]), .lane"
    page.wait_for_function("ready => shadow.querySelector(ready)", arg=ready)
    page.evaluate(FRAME)


def stop_at(page: Page, stop: int) -> None:
    """Scrub to a stop, and wait until the player has scrolled there."""
    page.evaluate(
        """stop => {
          const slider = shadow.querySelector('.slider');
          slider.value = stop;
          slider.dispatchEvent(new Event('input'));
          return new Promise(requestAnimationFrame);
        }""",
        stop,
    )
