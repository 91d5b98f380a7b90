"""How the course holds up when a class opens it at once: thirty sessions on this machine, without browsers.

    python -m tests.load.course [--sessions 30] [--think 2] [--json FILE]

Starts the app and speaks Streamlit's protocol to it, as thirty tabs would: each opens the list, then every lesson,
predicts, and goes through its steps, pausing between presses as a student would (`--think` seconds at
most, by a seeded draw). A wait is the time from a press to the end of the page's answer; each exception on a
page counts. Also measured, alone: how long a lesson takes from its address to the end of
its first answer, and in Chromium until its question can be answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from app.course.files import reading
from app.course.files.lesson import STEPS

from ..chromium import chromium
from .page import app
from .tab import Tab


async def student(tab: Tab, lessons: list[Any], think: float, seed: int) -> None:
    """One student going through these lessons."""
    rest = random.Random(seed)

    async def pause() -> None:
        await asyncio.sleep(rest.uniform(0.2, 1.0) * think)

    await tab.open()
    await tab.ask()
    for lesson in lessons:
        await pause()
        tab.query = {"lesson": lesson.id}
        await tab.ask()
        name = tab.named(f"course-{lesson.id}-prediction")
        if name is None:
            tab.errors.append(f"{lesson.id}: nothing to predict")
            continue
        await pause()
        shown = tab.elements[name]
        if lesson.front.predict.kind == "number":
            tab.widgets[name] = ("double_value", lesson.front.predict.low)
        elif lesson.front.predict.kind == "several":
            tab.widgets[name] = ("string_array_value", [shown.button_group.options[0].content])
        else:
            tab.widgets[name] = ("string_value", shown.radio.options[0])
        await tab.ask()
        lock = tab.named("course-lock")
        await pause()
        await tab.ask(lock)
        for _ in STEPS[2:]:
            forward = tab.named("course-next")
            if forward is None:
                break
            await pause()
            await tab.ask(forward)
        tab.widgets.clear()
    await tab.socket.close()


async def class_of(port: int, sessions: int, think: float) -> list[Tab]:
    """Thirty students at once: a third begins with lesson 0, a third in the middle, a third with the last."""
    lessons = [lesson for _, key, _, _ in reading.titles("en") if (lesson := reading.read("en", key)[0])]
    tabs = [Tab(port) for _ in range(sessions)]
    turned = [lessons[at:] + lessons[:at] for at in (0, len(lessons) // 3, 2 * len(lessons) // 3)]
    await asyncio.gather(*(student(tab, turned[at % 3], think, at) for at, tab in enumerate(tabs)))
    return tabs


async def alone(port: int) -> list[float]:
    """Seconds from the address of each lesson, in a new tab, to the end of the page's answer."""
    times = []
    for _, key, _, _ in reading.titles("en"):
        tab = Tab(port, query={"lesson": key})
        await tab.open()
        await tab.ask()
        times.append(tab.waits[0])
        await tab.socket.close()
    return times


def opened(url: str) -> list[float]:
    """Seconds from the address of each lesson, in a fresh tab of Chromium, until its question can be answered."""
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for key in ["race", *(key for _, key, _, _ in reading.titles("en"))]:
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            began = time.perf_counter()
            page.goto(f"{url}/course?lesson={key}")
            page.locator(f"[class*=st-key-course-{key}-prediction] :is(input, button)").first.wait_for(
                state="attached"
            )
            page.locator(".st-key-course-lock button").first.wait_for()
            times.append(time.perf_counter() - began)
            page.context.close()
        browser.close()
    return times[1:]  # the first visit fills the browser's cache


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--think", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    with app(place / "server.log", place / "commits.txt") as url:
        port = urlsplit(url).port or 0
        first = asyncio.run(alone(port))
        warm = asyncio.run(alone(port))
        interactive = opened(url)
        tabs = asyncio.run(class_of(port, arguments.sessions, arguments.think))
    waits = sorted(wait for tab in tabs for wait in tab.waits)
    errors = [error for tab in tabs for error in tab.errors]
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "lesson_cold_s": {"median": statistics.median(first), "worst": max(first)},
        "lesson_warm_s": {"median": statistics.median(warm), "worst": max(warm)},
        "interactive_s": {"median": statistics.median(interactive), "worst": max(interactive)},
        "sessions": arguments.sessions,
        "answers": len(waits),
        "wait_s": {
            "median": statistics.median(waits),
            "p95": waits[int(0.95 * len(waits))],
            "worst": waits[-1],
            "over_3_s": sum(wait > 3 for wait in waits),
        },
        "errors": errors[:20],
        "log": str(place / "server.log"),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
