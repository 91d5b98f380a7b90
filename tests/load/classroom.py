"""A class that presses Run: thirty visitors within ten seconds, each on a prompt of their own, without browsers.

    python -m tests.load.classroom [--visitors 30] [--within 10] [--tokens 48] [--readers 30] [--kills 20]
        [--json FILE]

Starts the app with the tiny models and speaks Streamlit's protocol to it, as thirty tabs would. Each opens the lab,
presses Run, and follows its run's event stream to the end; every fifth reloads the page meanwhile, every tenth stops,
every tenth guesses the words itself, with the proposer "You" and a moment's thought for each.
Measured: refused runs, errors, the wait for the first message and for the first token, the longest silence of a stream
before its run is over, and the whole.

Then the decoder's process is killed at random moments of a run: how long until the run's stream says so, and until the
next run, begun at once, has its first token. Last, the same race a few times with nobody else there, and with thirty
tabs reading the course, in turns: how far the audience moves the measured speedup.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil

from .page import app
from .tab import Tab

YOU_TOKENS = 12  # of a run whose visitor guesses
THOUGHT_S = 0.4
SUBJECTS = ("fox", "boat", "king", "garden", "clock", "letter", "storm", "baker", "river", "lamp")
TURNS = 5  # races with and without an audience


@dataclass
class Visit:
    """What one visitor met."""

    refused: str = ""
    errors: list[str] = field(default_factory=list)
    end: str = ""
    first_message_s: float | None = None
    first_token_s: float | None = None
    silence_s: float = 0.0
    total_s: float = 0.0
    speedup: float | None = None
    guesses: int = 0


async def enter(port: int, query: dict[str, str]) -> Tab:
    """A new visitor's tab on the lab, with a cookie of its own."""
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/", headers={"Accept": "text/html"})
    cookie = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
    tab = Tab(port, page="", cookie=cookie, query=query)
    await tab.open()
    await tab.ask()
    return tab


async def follow(
    tab: Tab, began: float, visit: Visit, stop_after: int = 0, drawn: asyncio.Task[None] | None = None
) -> None:
    """Follow the run that the tab's address names; Stop is pressed once the page is `drawn`."""
    last, clocks = time.perf_counter(), {}
    address = f"http://127.0.0.1:{tab.port}/runs/{tab.query['run']}/events"
    async with (
        httpx2.AsyncClient(timeout=None) as client,
        client.stream("GET", address, headers={"Cookie": tab.cookie}) as stream,
    ):
        steps = 0
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            now, message = time.perf_counter(), json.loads(line[6:])
            visit.silence_s, last = max(visit.silence_s, now - last), now
            if visit.first_message_s is None:
                visit.first_message_s = now - began
            if message["type"] == "step":
                steps += 1
                if visit.first_token_s is None:
                    visit.first_token_s = now - began
                if stop_after and steps == stop_after:
                    if drawn:
                        await drawn
                    await tab.ask(tab.named("stop_run"))
            elif message["type"] == "ask":
                await asyncio.sleep(THOUGHT_S)
                words = {"question": message["question"], "words": " the little"}
                taken = await client.post(
                    address.removesuffix("events") + "answer", json=words, headers={"Cookie": tab.cookie}
                )
                visit.guesses += taken.status_code == 204
                last = time.perf_counter()  # the page was not silent, it waited
            elif message["type"] == "finished":
                clocks[message["lane"]] = message["stats"]
                visit.end = message["end"]
            elif message["type"] == "error":
                visit.errors.append(message["message"])
    if len(clocks) == 2:
        pace = [clocks[lane]["tokens"] / clocks[lane]["decode_s"] for lane in (0, 1)]
        visit.speedup = pace[1] / pace[0]
    visit.total_s = time.perf_counter() - began


async def visitor(port: int, number: int, tokens: int, within: float) -> Visit:
    """One visitor: opens the lab, presses Run some time within `within` seconds, and waits for the end."""
    rest, visit = random.Random(number), Visit()
    prompt = f"Once upon a time a {SUBJECTS[number % 10]} number {number} met"
    query = {"prompt": prompt, "tokens": str(tokens), "seed": str(number)}
    if number % 10 == 2:
        query |= {"proposer": "you", "tokens": str(YOU_TOKENS)}
    tab = await enter(port, query)
    await asyncio.sleep(rest.uniform(0, within))
    began = time.perf_counter()
    pressed = asyncio.create_task(tab.ask(tab.named("go")))
    while not pressed.done() and not ("run" in tab.query and tab.named("player")):
        await asyncio.sleep(0.002)  # until the page has its player, which listens before the rest is drawn
    if "run" not in tab.query:
        visit.refused = "; ".join(tab.errors) or "no run"
        return visit
    following = asyncio.create_task(follow(tab, began, visit, 3 if number % 10 == 9 else 0, pressed))
    if number % 5 == 4:  # reloads: a new session, the same address
        again = Tab(port, page="", cookie=tab.cookie, query=dict(tab.query))
        await again.open()
        await again.ask()
        visit.errors += again.errors
        await again.socket.close()
    await asyncio.gather(pressed, following)
    visit.errors += tab.errors
    await tab.socket.close()
    return visit


async def reader(port: int, number: int, over: asyncio.Event) -> None:
    """Somebody who reads the course until told otherwise, a page every few seconds."""
    rest = random.Random(number)
    tab = Tab(port)
    await tab.open()
    while not over.is_set():
        tab.query = {"lesson": rest.choice(["race", "weights", "tokens", "coin", "length", "fails"])}
        await tab.ask()
        await asyncio.sleep(rest.uniform(2, 6))
    await tab.socket.close()


async def alone(port: int, tokens: int) -> Visit:
    """One race of one visitor."""
    tab = await enter(port, {"tokens": str(tokens), "seed": "5"})
    visit, began = Visit(), time.perf_counter()
    await tab.ask(tab.named("go"))
    await follow(tab, began, visit)
    await tab.socket.close()
    return visit


async def audience(port: int, readers: int, tokens: int) -> dict[str, list[Visit]]:
    """The same race without and with readers, in turns."""
    await alone(port, tokens)
    found: dict[str, list[Visit]] = {"alone": [], "with readers": []}
    for _ in range(TURNS):
        found["alone"].append(await alone(port, tokens))
        over = asyncio.Event()
        reading = [asyncio.create_task(reader(port, number, over)) for number in range(readers)]
        await asyncio.sleep(5)
        found["with readers"].append(await alone(port, tokens))
        over.set()
        await asyncio.gather(*reading)
    return found


def decoder() -> psutil.Process:
    """The decoder's process: forked from the one that has imported torch, below the server below this one."""
    below = psutil.Process().children(recursive=True)
    forking = {process.pid for process in below if "forkserver" in " ".join(process.cmdline())}
    return next(process for process in below if process.pid in forking and process.ppid() in forking)


async def killed(port: int, number: int) -> tuple[Visit, Visit]:
    """A run whose decoder is killed, and the one that follows at once."""
    tab = await enter(port, {"tokens": "400", "seed": str(number)})
    await tab.ask(tab.named("go"))
    visit = Visit()
    following = asyncio.create_task(follow(tab, time.perf_counter(), visit))
    await asyncio.sleep(random.Random(number).uniform(0, 1.5))
    decoder().kill()
    began = time.perf_counter()
    await following
    visit.total_s = time.perf_counter() - began
    await tab.socket.close()
    return visit, await alone(port, 16)


def spread(values: list[float]) -> dict[str, float]:
    """Median and worst."""
    return {"median": round(statistics.median(values), 3), "worst": round(max(values), 3)} if values else {}


def of_class(visits: list[Visit]) -> dict[str, Any]:
    """What the class met."""
    return {
        "visitors": len(visits),
        "refused": [visit.refused for visit in visits if visit.refused],
        "errors": [error for visit in visits for error in visit.errors],
        "finished": sum(bool(visit.end) for visit in visits),
        "stopped": sum(visit.end == "cancelled" for visit in visits),
        "guessed_themselves": sum(visit.guesses > 0 for visit in visits),
        "guesses_taken": sum(visit.guesses for visit in visits),
        "first_message_s": spread([visit.first_message_s for visit in visits if visit.first_message_s]),
        "first_token_s": spread([visit.first_token_s for visit in visits if visit.first_token_s]),
        "silence_s": spread([visit.silence_s for visit in visits]),
    }


def of_deaths(deaths: list[tuple[Visit, Visit]]) -> dict[str, Any]:
    """What the visitors of a killed decoder met."""
    return {
        "times": len(deaths),
        "told": sum(bool(dead.errors) for dead, _ in deaths),
        "told_after_s": spread([dead.total_s for dead, _ in deaths]),
        "next_run_works": sum(bool(after.end) and not after.errors for _, after in deaths),
        "next_first_token_s": spread([after.first_token_s for _, after in deaths if after.first_token_s]),
    }


def of_audience(turns: dict[str, list[Visit]]) -> dict[str, Any]:
    """The speedups without and with readers."""
    found = {name: [turn.speedup for turn in these if turn.speedup] for name, these in turns.items()}
    return {name: {**spread(these), "all": [round(one, 3) for one in these]} for name, these in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--within", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ["SPECDEC_DEFAULT_MODELS"] = "tiny"
    place = Path(tempfile.mkdtemp())
    os.environ["SPECDEC_LIBRARY"] = str(place / "library.sqlite3")

    async def a_class(port: int) -> list[Visit]:
        coming = (visitor(port, number, given.tokens, given.within) for number in range(given.visitors))
        return list(await asyncio.gather(*coming))

    with app(place / "server.log", place / "commits.txt") as url:
        port = urlsplit(url).port or 0
        began = time.perf_counter()
        visits = asyncio.run(a_class(port))
        whole = time.perf_counter() - began
        deaths = [asyncio.run(killed(port, number)) for number in range(given.kills)]
        turns = asyncio.run(audience(port, given.readers, 4 * given.tokens)) if given.readers else {}
    result: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "class": {**of_class(visits), "until_all_are_done_s": round(whole, 1)},
        "killed": of_deaths(deaths),
        "speedup": of_audience(turns),
        "log": str(place / "server.log"),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
