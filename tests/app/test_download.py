"""Downloads: a hub of the test's own, the real client in its own process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app import config as policy
from app.decoding import preparing
from app.decoding.models import ModelCache, ModelChoice
from specdec_core.foundations.errors import DownloadRefused, ModelError

FILES = {"config.json": b"{}", "model.safetensors": b"w" * 400_000}


class Hub(ThreadingHTTPServer):
    """A hub with one model, `a/b`, whose weights come as slowly as the test wants."""

    daemon_threads = True
    pause_s = 0.0
    asked: list[str]


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        if path == "/api/models/a/b":
            siblings = [{"rfilename": name, "size": len(data)} for name, data in FILES.items()]
            self._send(json.dumps({"id": "a/b", "sha": "0" * 40, "siblings": siblings}).encode(), body)
        elif path.startswith("/a/b/resolve/") and (name := path.rsplit("/", 1)[1]) in FILES:
            if body:
                self.server.asked.append(name)
            self._send(FILES[name], body, slowly=True)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, data: bytes, body: bool, slowly: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{len(data):040}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()
        for start in range(0, len(data) if body else 0, 4_000):
            self.wfile.write(data[start : start + 4_000])
            if slowly and len(data) > 1_000:
                time.sleep(self.server.pause_s)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub(("127.0.0.1", 0), Answers)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield server
    server.shutdown()
    server.server_close()


def take(report: Callable[[int, int], None] = lambda done, total: None, most: int = 10**9) -> None:
    preparing.fetch("a/b", most, report, lambda: False)


def test_a_model_is_downloaded_and_its_bytes_are_told(hub: Hub, tmp_path: Path) -> None:
    """Catches: progress that does not reach the total, files that land elsewhere than in the hub's cache."""
    seen: list[tuple[int, int]] = []
    take(lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 400_002)
    assert seen[-1] == (400_002, 400_002)
    (weights,) = tmp_path.rglob("model.safetensors")
    assert weights.read_bytes() == FILES["model.safetensors"]


def test_what_is_too_large_is_refused_before_a_byte_of_it(hub: Hub) -> None:
    """Catches: a limit that is looked at after the download, a limit that loading then goes around."""
    sentence = "would be a download of 0.0 GB, and this server takes up to 0.0 GB"
    with pytest.raises(DownloadRefused, match=sentence):
        take(most=100_000)
    assert not hub.asked
    loaded = []
    shelf = ModelCache(loaded.append, preparing.fetch, most_bytes=100_000)
    with pytest.raises(ModelError, match=sentence):
        shelf.get(ModelChoice("a/b"))
    assert not loaded
    assert sentence in shelf.status(ModelChoice("a/b")).text


def test_stopping_ends_a_download(hub: Hub, tmp_path: Path) -> None:
    """Catches: a visitor's Stop that waits for gigabytes, a process that goes on downloading."""
    hub.pause_s = 0.5  # 50 s in all
    stop = threading.Event()
    shelf = ModelCache(lambda choice: "models", preparing.fetch)
    errors: list[ModelError] = []

    def get() -> None:
        with pytest.raises(DownloadRefused) as caught:
            shelf.get(ModelChoice("a/b"), stop.is_set)
        errors.append(caught.value)

    thread = threading.Thread(target=get)
    thread.start()
    deadline = time.monotonic() + 60
    while "model.safetensors" not in hub.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    thread.join(10)
    assert [str(error) for error in errors] == ["The download of a/b was stopped."]
    assert not preparing._running
    assert not list(tmp_path.rglob("snapshots/*/model.safetensors"))
    hub.pause_s = 0.0
    assert shelf.get(ModelChoice("a/b")) == "models"


@pytest.mark.parametrize("said", ["-1", "many", "1e9", "1,5"])
def test_a_limit_that_is_no_number_is_named(said: str) -> None:
    with pytest.raises(ValueError, match="SPECDEC_MAX_DOWNLOAD_GB has to be a number"):
        policy.read({"SPECDEC_MAX_DOWNLOAD_GB": said})
    assert policy.read({"SPECDEC_MAX_DOWNLOAD_GB": "0.5"}).most_download == 500_000_000
