"""What visitors meet when a process dies while runs are under way.

    python -m tests.load.deaths [web] [proxy] [ray] [--times 1] [--json FILE]

`web` kills the only web server and starts it again: its stored run has to be the same, byte for byte, and the page of
the run that was under way has to say so. `proxy` kills one of two web servers that share a PostgreSQL behind
deploy/nginx.conf, below a path: its visitors' streams have to go on from the other one, whose own visitors must not
notice. `ray` kills one of three Ray replicas while all three compute; it needs requirements-serve.txt. Every process is
real and ends by SIGKILL. Visitors are tabs without a browser; they reconnect 0.2 s after a stream broke off, a browser
after about three.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg

from ..app import postgres
from .servers import Web, nginx
from .tab import Tab

RETRY_S = 0.2
GIVE_UP_S = 120.0
TOKENS = 600  # of a run that is to be under way
BELOW = "/school/specdec"


@dataclass
class Seen:
    """What one visitor's stream said, over all its connections."""

    run: str
    numbers: list[int] = field(default_factory=list)
    rounds: list[tuple[int, int]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    error: str = ""
    told: float = 0.0  # when the error came
    connections: int = 0
    over: bool = False

    @property
    def twice(self) -> int:
        """How many messages or rounds came more than once."""
        return len(self.numbers) - len(set(self.numbers)) + len(self.rounds) - len(set(self.rounds))

    def hear(self, number: int, message: dict[str, Any]) -> None:
        """One message."""
        self.numbers.append(number)
        if message["type"] == "step":
            self.rounds.append((message["lane"], message["round"]))
        elif message["type"] == "finished":
            self.ends.append(message["end"])
        elif message["type"] == "error":
            self.error, self.told = message["message"], time.monotonic()
        elif message["type"] == "done":
            self.over = True


async def watch(tab: Tab, seen: Seen) -> None:
    """Follow the run to its end as an EventSource does: after a broken connection from the last message on."""
    address = f"http://127.0.0.1:{tab.port}{tab.below}/runs/{seen.run}/events"
    deadline = time.monotonic() + GIVE_UP_S
    while not seen.over and time.monotonic() < deadline:
        headers = {"Cookie": tab.cookie} | ({"Last-Event-ID": str(seen.numbers[-1])} if seen.numbers else {})
        try:
            async with (
                httpx2.AsyncClient(timeout=30) as client,
                client.stream("GET", address, headers=headers) as got,
            ):
                seen.connections += got.status_code == 200
                number = -1
                async for line in got.aiter_lines():
                    if line.startswith("id: "):
                        number = int(line[4:])
                    elif line.startswith("data: "):
                        seen.hear(number, json.loads(line[6:]))
                if got.status_code == 204:
                    return
        except httpx2.HTTPError:
            pass
        await asyncio.sleep(RETRY_S)


async def enter(port: int, query: dict[str, str], below: str = "") -> Tab:
    """A new visitor's tab on the lab, with a cookie of its own."""
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.get(f"http://127.0.0.1:{port}{below}/", headers={"Accept": "text/html"})
    cookie = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
    tab = Tab(port, page="", cookie=cookie, below=below, query=query)
    await tab.open()
    await tab.ask()
    return tab


async def begin(tab: Tab) -> tuple[Seen, asyncio.Task[None]]:
    """Press Run, and follow it."""
    await tab.ask(tab.named("go"))
    if "run" not in tab.query:
        raise SystemExit(f"A run was refused: {tab.errors}")
    seen = Seen(tab.query["run"])
    return seen, asyncio.create_task(watch(tab, seen))


async def computing(seen: Seen) -> None:
    """Wait until the run has written something."""
    while not seen.rounds and not seen.over:
        await asyncio.sleep(0.01)


async def works(port: int, below: str = "") -> float:
    """Seconds from a new visitor's Run to its first round; raises if it does not end as it should."""
    tab = await enter(port, {"tokens": "16", "seed": "3"}, below)
    began = time.monotonic()
    seen, following = await begin(tab)
    await computing(seen)
    first = time.monotonic() - began
    await following
    if seen.error or len(seen.ends) != 2:
        raise SystemExit(f"The run after a death failed: {seen}")
    return first


async def shows(tab: Tab, seen: Seen) -> list[str]:
    """The errors on the page that the visitor has after a reload."""
    again = Tab(tab.port, page="", cookie=tab.cookie, below=tab.below, query={"run": seen.run})
    await again.open()
    await again.ask()
    await again.socket.close()
    return again.errors


async def traces(tab: Tab, run: str) -> list[bytes]:
    """The stored records of a finished run, as its owner gets them; waits until they are there."""
    async with httpx2.AsyncClient(timeout=30) as client:
        found: list[bytes] = []
        for lane in (0, 1):
            address = f"http://127.0.0.1:{tab.port}{tab.below}/traces/{run}-{lane}.json"
            answer = await client.get(address, headers={"Cookie": tab.cookie})
            found.append(answer.content if answer.status_code == 200 else b"")
    return found


async def a_web_server(place: Path, number: int) -> dict[str, Any]:
    """Kill the only web server."""
    rest = random.Random(number)
    web = Web(place / "web.log", {"SPECDEC_LIBRARY": str(place / "library.sqlite3")})
    try:
        web.start()
        tab = await enter(web.port, {"tokens": "32", "seed": "1"})
        kept, following = await begin(tab)
        await following
        stored = await traces(tab, kept.run)
        other = await enter(web.port, {"tokens": str(TOKENS), "seed": str(number)})
        seen, following = await begin(other)
        await computing(seen)
        await asyncio.sleep(rest.uniform(0.3, 1.0))  # the database is at most a quarter of a second behind
        ended_s = await asyncio.to_thread(web.kill)
        before = len(seen.rounds)
        ready_s = await asyncio.to_thread(web.start)
        ready = time.monotonic()
        await following
        errors = await shows(other, seen)
        return {
            "stored_run_is_the_same": bool(all(stored)) and await traces(tab, kept.run) == stored,
            "its_processes_ended_after_s": round(ended_s, 2),
            "ready_again_after_s": round(ready_s, 1),
            "visitor_told": bool(seen.error),
            "told_after_ready_s": round(max(0.0, seen.told - ready), 2),
            "rounds_seen_before": before,
            "shown_twice": seen.twice,
            "errors_on_the_reloaded_page": errors,
            "next_first_token_s": round(await works(web.port), 2),
        }
    finally:
        web.stop()


async def one_of_two(place: Path, number: int) -> dict[str, Any]:
    """Kill one of two web servers behind nginx."""
    rest = random.Random(number)
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database(stack.enter_context(postgres.server()), "lab"))
        settings = {"SPECDEC_DATABASE": url, "SPECDEC_PATH": BELOW}
        webs = [Web(place / f"web{at}.log", settings) for at in (1, 2)]
        for web in webs:
            stack.callback(web.stop)
        await asyncio.gather(*(asyncio.to_thread(web.start) for web in webs))
        proxy = stack.enter_context(nginx([web.port for web in webs], place / "nginx", BELOW))
        visits: dict[int, list[tuple[Tab, Seen, asyncio.Task[None]]]] = {0: [], 1: []}
        while not (visits[0] and visits[1]):  # by the hash of their cookies
            tab = await enter(proxy, {"tokens": str(TOKENS), "seed": "2"}, BELOW)
            held = [web.health()["runs"] for web in webs]
            seen, following = await begin(tab)
            at = 0 if webs[0].health()["runs"] != held[0] else 1
            visits[at].append((tab, seen, following))
        for at in (0, 1):
            await computing(visits[at][0][1])
        await asyncio.sleep(rest.uniform(0.3, 1.0))
        killed = time.monotonic()
        await asyncio.to_thread(webs[0].kill)
        await asyncio.gather(*(following for at in (0, 1) for *_, following in visits[at]))
        mine, others = ([seen for _, seen, _ in visits[at]] for at in (0, 1))
        return {
            "visitors": [len(mine), len(others)],
            "told": sum(bool(seen.error) for seen in mine),
            "told_after_s": [round(seen.told - killed, 2) for seen in mine],
            "went_on_from_the_other": sum(seen.connections > 1 for seen in mine),
            "shown_twice": sum(seen.twice for seen in mine + others),
            "errors_on_the_reloaded_page": [
                error for tab, seen, _ in visits[0] for error in await shows(tab, seen)
            ],
            "others_disturbed": sum(
                bool(seen.error) or len(seen.ends) != 2 or seen.connections != 1 for seen in others
            ),
            "next_first_token_s": round(await works(proxy, BELOW), 2),
            "runs_in_the_library": _count(url),
        }


def _count(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM runs").fetchone()
    return int(found[0]) if found else 0


def replicas() -> list[psutil.Process]:
    """The processes of the decoders that Ray has started below this one."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if one.cmdline()[:1] == ["ray::ServeReplica:decoder:decoder"]]


async def one_of_three(place: Path, number: int) -> dict[str, Any]:
    """Kill one of three Ray replicas."""
    settings = {"SPECDEC_DECODER": "serve", "SPECDEC_SERVE_REPLICAS": "3"}
    web = Web(place / "web.log", {**settings, "SPECDEC_LIBRARY": str(place / "library.sqlite3")})
    try:
        web.start()
        while len(replicas()) < 3:
            await asyncio.sleep(0.5)
        tabs = [await enter(web.port, {"tokens": str(TOKENS), "seed": str(seed)}) for seed in range(3)]
        visits = [await begin(tab) for tab in tabs]
        for seen, _ in visits:
            await computing(seen)
        killed = time.monotonic()
        random.Random(number).choice(replicas()).kill()
        await asyncio.gather(*(following for _, following in visits))
        dead = [seen for seen, _ in visits if seen.error]
        return {
            "told": len(dead),
            "told_after_s": [round(seen.told - killed, 2) for seen in dead],
            "others_disturbed": sum(len(seen.ends) != 2 for seen, _ in visits if not seen.error),
            "shown_twice": sum(seen.twice for seen, _ in visits),
            "decoders_lost": web.health()["decoders_lost"],
            "next_first_token_s": round(await works(web.port), 2),
        }
    finally:
        web.stop()


KINDS: dict[str, Callable[[Path, int], Coroutine[Any, Any, dict[str, Any]]]] = {
    "web": a_web_server,
    "proxy": one_of_two,
    "ray": one_of_three,
}


def main() -> None:
    """Kill and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="all of them if none is named")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for kind in given.kinds or KINDS:
        for number in range(given.times):
            place = Path(tempfile.mkdtemp())
            found = asyncio.run(KINDS[kind](place, number))
            result.setdefault(kind, []).append({**found, "logs": str(place)})
    result["load_average"] = os.getloadavg()[0]
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
