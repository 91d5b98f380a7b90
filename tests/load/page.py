"""How responsive the page is, with browser and decoder on the same machine.

    python -m tests.load.page [--json FILE] [--repeat 5]

Starts the app, waits until the models are warm, and measures in Chromium: the recorded race moving, page interactive,
Run to the first token on screen, updates per second while running, how long a round takes from its commit in the
decoder to the screen, Stop to idle. Medians over the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from ..chromium import chromium

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "tokens=256&seed=1"
RETURNING = (
    'localStorage.setItem("specdec-first-round", "seen")'  # a visitor to whom runs are shown in real time
)
RUN = re.compile("^Run")  # not a "pruned" guess in the tree
LONG = "tokens=900&temperature=1"

# Which rounds of a running decode reached the screen, and when. A round counts once the frame in which it was added
# has been drawn, which is when the next task runs. Players are looked for in every frame, as a run may bring a new one.
WATCH = """
() => {
  const seen = (window.__seen = { start: null, rounds: [] });
  const watched = new WeakSet();
  const arrived = new MutationObserver((records) => {
    const added = records.flatMap((record) => [...record.addedNodes])
      .filter((node) => node.matches?.(".is-live .committed > .round"))
      .map(({ dataset }) => [Number(dataset.lane), Number(dataset.round)]);
    const drawn = () => {
      const now = Date.now();
      seen.rounds.push(...added.map((round) => [...round, now]));
    };
    if (added.length) setTimeout(drawn);
  });
  const watch = () => {
    for (const { shadowRoot } of document.querySelectorAll("[data-testid^=stBidiComponent]")) {
      if (!shadowRoot || watched.has(shadowRoot)) continue;
      watched.add(shadowRoot);
      arrived.observe(shadowRoot, { childList: true, subtree: true });
    }
    requestAnimationFrame(watch);
  };
  document.addEventListener("click", () => Object.assign(seen, { start: Date.now(), rounds: [] }), true);
  watch();
}
"""


@contextmanager
def app(log: Path, commits: Path) -> Iterator[str]:
    """The app on a free port, warm; its output goes to `log`, the commit times of its rounds to `commits`."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = {"SPECDEC_DEFAULT_MODELS": "tiny", **os.environ, "PORT": str(port), "HOST": "127.0.0.1"}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "tests.load.page_server", str(commits)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while _health(url).get("models") != "ready":
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit("The app did not become ready; start it by hand to see why.")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            body: dict[str, Any] = json.load(answer)
            return body
    except OSError:
        return {}


def _busy(url: str) -> bool:
    runs = _health(url)["runs"]
    return bool(runs["loading"] + runs["queued"] + runs["running"])


def _open(browser: Browser, url: str, query: str) -> tuple[Page, float]:
    """A page in a fresh session, and the seconds until its Run button could be pressed."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(RETURNING)
    began = time.perf_counter()
    page.goto(f"{url}/?{query}")
    page.get_by_role("button", name=RUN).wait_for()
    return page, time.perf_counter() - began


def measure_first(browser: Browser, url: str) -> dict[str, float]:
    """A visitor's first page, with nothing pressed: seconds until the recorded race has moved."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    began = time.perf_counter()
    page.goto(url)
    page.locator(".player :is(.guess, .committed .tok)").first.wait_for(state="attached")
    moved = time.perf_counter() - began
    page.context.close()
    return {"moves_s": moved}


def _lags(commits: list[str], rounds: list[tuple[int, int, float]]) -> list[float]:
    """Seconds from each round's commit to its being on screen; all committed rounds must have arrived."""
    committed = {(int(lane), int(at)): float(when) for when, lane, at in map(str.split, commits)}
    shown = {(lane, at): when / 1000 for lane, at, when in reversed(rounds)}  # the first time of each
    if committed.keys() != shown.keys():
        raise SystemExit(f"{len(committed)} rounds were committed, {len(shown)} of them seen on screen.")
    return [shown[round] - committed[round] for round in committed]


def measure_run(browser: Browser, url: str, commits: Path) -> dict[str, float]:
    """One complete run."""
    before = len(commits.read_text().splitlines())
    page, interactive = _open(browser, url, PROMPT)
    page.wait_for_timeout(500)
    page.evaluate(WATCH)
    page.get_by_role("button", name=RUN).click()
    page.get_by_text("Target passes saved").wait_for(timeout=120_000)
    seen = page.evaluate("window.__seen")
    page.context.close()
    # Rounds added in one frame share a time.
    updates = sorted({when / 1000 for *_, when in seen["rounds"]})
    duration = updates[-1] - updates[0]
    lags = _lags(commits.read_text().splitlines()[before:], seen["rounds"])
    return {
        "interactive_s": interactive,
        "first_token_s": updates[0] - seen["start"] / 1000,
        "updates_per_s": (len(updates) - 1) / duration if duration > 0 else 0.0,
        "lag_s": statistics.median(lags),
        "worst_lag_s": max(lags),
        "run_s": duration,
    }


def measure_stop(browser: Browser, url: str) -> dict[str, float]:
    """Stop a long run; seconds until nothing computes, and the time of a round."""
    page, _ = _open(browser, url, LONG)
    page.get_by_role("button", name=RUN).click()
    page.locator(".lane").nth(1).locator(".round").nth(5).wait_for(state="attached")
    page.wait_for_timeout(300)
    began = time.perf_counter()
    page.keyboard.press("Escape")
    while _busy(url):
        time.sleep(0.002)
    idle = time.perf_counter() - began
    page.get_by_text("Target passes saved").wait_for()
    run_id = parse_qs(urlsplit(page.url).query)["run"][0]
    stats = page.request.get(f"{url}/traces/{run_id}-1.json").json()["stats"]
    page.context.close()
    round_s = (stats["draft_s"] + stats["verify_s"] + stats["other_s"]) / stats["target_passes"]
    return {"stop_to_idle_s": idle, "round_s": round_s}


def measure_leave(browser: Browser, url: str) -> dict[str, float]:
    """Close the tab of a long run; seconds until nothing computes."""
    page, _ = _open(browser, url, LONG)
    page.get_by_role("button", name=RUN).click()
    page.locator(".lane").nth(1).locator(".round").nth(5).wait_for(state="attached")
    began = time.perf_counter()
    page.context.close()
    while _busy(url):
        time.sleep(0.002)
    return {"closed_tab_to_idle_s": time.perf_counter() - began}


WANTED = {
    "interactive_s": ("page interactive", "≤ 3 s"),
    "moves_s": ("page opened to the recorded race's first guess", "≤ 2 s"),
    "first_token_s": ("Run to first token on screen", "≤ 0.5 s"),
    "updates_per_s": ("browser updates while running", "≥ 30 per s"),
    "lag_s": ("a round's commit to the screen, median", "≤ 0.05 s"),
    "worst_lag_s": ("a round's commit to the screen, worst", ""),
    "stop_to_idle_s": ("Escape to compute idle, seen outside", ""),
    "closed_tab_to_idle_s": ("closed tab to idle, seen outside", ""),
    "asked_to_idle_s": ("server received Stop to compute idle", "≤ one round"),
    "round_s": ("a round of the speculative lane", ""),
    "run_s": ("the run itself", ""),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: dict[str, list[float]] = {}
    place = Path(tempfile.mkdtemp())
    log, commits = place / "server.log", place / "commits.txt"
    with app(log, commits) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-background-networking"]
        )
        for turn in range(arguments.repeat + 1):
            for measured in (
                measure_first(browser, url),
                measure_run(browser, url, commits),
                measure_stop(browser, url),
                measure_leave(browser, url),
            ):
                for key, value in measured.items():
                    if turn:  # the first turn warms the browser's cache and the decoder
                        rows.setdefault(key, []).append(value)
        browser.close()
    rows["asked_to_idle_s"] = [
        float(found) for found in re.findall(r"computed no more ([0-9.]+) s after", log.read_text())
    ]
    print(f"{'what':52}{'median':>10}{'worst':>10}   wanted")
    for key, (title, wanted) in WANTED.items():
        values = rows[key]
        worst = min(values) if key == "updates_per_s" else max(values)
        print(f"{title:52}{statistics.median(values):10.3f}{worst:10.3f}   {wanted}")
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "median": {key: statistics.median(values) for key, values in rows.items()},
        "all": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    else:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
