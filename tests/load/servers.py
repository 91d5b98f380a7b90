"""Processes that a benchmark starts, kills and starts again: web servers of the app, and nginx in front of them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
READY_S = 180.0


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@dataclass
class Web:
    """`python -m app` with the tiny models on a port of its own; `log` is where it writes."""

    log: Path
    settings: dict[str, str]
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; returns the seconds until its models are ready."""
        own = {"PORT": str(self.port), "HOST": "127.0.0.1", "SPECDEC_DEFAULT_MODELS": "tiny"}
        began = time.monotonic()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app"],
                cwd=ROOT,
                env={**os.environ, **own, **self.settings},
                stdout=output,
                stderr=output,
            )
        while self.health().get("models") != "ready":
            if self.process.poll() is not None or time.monotonic() - began > READY_S:
                raise SystemExit(f"The app did not become ready; see {self.log}.")
            time.sleep(0.1)
        return time.monotonic() - began

    def health(self) -> dict[str, Any]:
        """What its health check says; nothing while it does not answer."""
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer,
        ):
            found: dict[str, Any] = json.load(answer)
            return found
        return {}

    def kill(self) -> float:
        """Kill it; returns the seconds until the processes that it had started have ended."""
        assert self.process is not None
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        began = time.monotonic()
        _, alive = psutil.wait_procs(started, timeout=30)
        if alive:
            raise SystemExit(f"{len(alive)} processes of a killed server live on: {alive}")
        return time.monotonic() - began

    def stop(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def configuration(servers: list[int], port: int, folder: Path, below: str) -> str:
    """deploy/nginx.conf for these web servers on this machine: without TLS, on `port`, with its files in `folder`."""
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    text = re.sub(r"    server \{\n        listen 80;.*?\n    \}\n", "", text, flags=re.DOTALL)
    text = re.sub(r"        (ssl_|server_name|add_header Strict)[^\n]*\n", "", text)
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace(
        "location / {", f"location {below}/ {{"
    )
    lines = iter(servers)
    text = re.sub(r"127\.0\.0\.1:850\d", lambda _: f"127.0.0.1:{next(lines)}", text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"    {kind}_temp_path {folder};\n" for kind in kinds)
    text = text.replace("http {\n", f"http {{\n    access_log off;\n{places}", 1)
    return f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n{text}"


@contextmanager
def nginx(servers: list[int], folder: Path, below: str) -> Iterator[int]:
    """nginx in front of web servers on these ports; the value is its own."""
    folder.mkdir()
    port = free_port()
    (folder / "nginx.conf").write_text(configuration(servers, port, folder, below), encoding="utf-8")
    process = subprocess.Popen(["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"])
    try:
        deadline = time.monotonic() + 10
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"nginx did not start; see {folder}/error.log.")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)
