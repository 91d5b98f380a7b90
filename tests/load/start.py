"""A second start of the app: how long until a prompt of one's own is answered, and how much memory the server takes.

    python -m tests.load.start [--repeat 3] [--json FILE]

The server starts with its usual models, converted before, and a browser is opened as soon as it listens. A prompt is
typed, and Run is pressed as soon as the chat models have taken over. Measured from the start of the process: page
interactive, tiny models ready, chat models ready, first round on the screen; and the memory of all the server's
processes after the run, what they share counted once (Linux). Last, a fresh process without the app, from its start to
the first token of the tiny models.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from benchmarks.passes import loading

from ..chromium import chromium
from .page import RETURNING, ROOT, RUN, _health

PROMPTS = ("Why is the sky blue?", "Name three things to take to the beach.", "What does a plumber do?")
LIMIT_S = 180
STEP_S = 0.02


def once(prompt: str, library: Path) -> dict[str, float]:
    """One start."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = {**os.environ, "PORT": str(port), "HOST": "127.0.0.1", "SPECDEC_LIBRARY": str(library)}
    url, seen = f"http://127.0.0.1:{port}", {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(LIMIT_S * 1000)
        page.add_init_script(RETURNING)
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=environment)

        def reached(what: str, there: Callable[[], bool]) -> None:
            while not there():
                if time.perf_counter() - began > LIMIT_S or process.poll() is not None:
                    raise SystemExit(f"Not reached: {what}.")
                time.sleep(STEP_S)
            seen[what] = time.perf_counter() - began

        try:
            reached("listens_s", lambda: bool(_health(url)))
            page.goto(url)
            page.get_by_role("button", name=RUN).wait_for()
            seen["interactive_s"] = time.perf_counter() - began
            page.get_by_label("Prompt", exact=True).fill(prompt)
            reached("tiny_ready_s", lambda: _health(url).get("models") == "ready")
            reached("chat_ready_s", lambda: _health(url).get("default") == "ready")
            page.get_by_role("button", name=RUN).click()
            page.locator(".is-live .committed > .round").first.wait_for(state="attached")
            seen["first_round_s"] = time.perf_counter() - began
            reached("done_s", lambda: _health(url)["runs"]["done"] > 0)
            seen["memory_gb"] = memory(process.pid) / 1e9
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            browser.close()
    return seen


def memory(pid: int) -> int:
    """Bytes of a process and all below it, shared pages divided among those that share them."""
    whole = psutil.Process(pid)
    return sum(one.memory_full_info().pss for one in (whole, *whole.children(recursive=True)))


WANTED = {
    "listens_s": ("the server listens", ""),
    "interactive_s": ("page interactive", ""),
    "tiny_ready_s": ("tiny models ready", ""),
    "chat_ready_s": ("chat models ready", ""),
    "first_round_s": ("first round of an own chat prompt on the screen", "≤ 12 s"),
    "memory_gb": ("memory of all its processes after the run, GB", "≤ 1.8"),
    "fresh process to first token": ("a fresh process to the tiny models' first token", "≤ 4 s"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(given.repeat):
            found = once(PROMPTS[turn % len(PROMPTS)], Path(place) / f"library-{turn}.sqlite3")
            for key, value in found.items():
                rows.setdefault(key, []).append(value)
    fresh = "fresh process to first token"
    rows[fresh] = [loading(1)[fresh] for _ in range(given.repeat)]
    for key, (title, wanted) in WANTED.items():
        values = rows[key]
        print(f"{title:52}{statistics.median(values):10.2f}{max(values):10.2f}   {wanted}")
    result: dict[str, Any] = {"machine": f"{os.cpu_count()} cores", "all": rows}
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
