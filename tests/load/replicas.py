"""Decoders on Ray Serve against the one of this machine: how late events are, and how many runs they finish.

    python -m tests.load.replicas [--waiting] [--guesses 100] [--runs 30] [--replicas 3]

An event's lateness is the time from its leaving the decoder to its arrival here, while as many runs are under way as
there are decoders. A guess's round trip is the time from one question of a "You" run to the next, answered at once: two
messages and one round of the tiny models. Then the same races are run all at once on one decoder and on several; that
needs a core for each, and one for this process: `--waiting` has decoders that wait instead of computing
(`tests.load.stamped`), so that several need none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from app.decoding.api import Decoders, Family
from app.decoding.device_queue import DeviceQueue
from app.decoding.in_child.local import Local
from app.decoding.models import ModelChoice
from app.decoding.on_ray.cluster import Cluster
from app.decoding.on_ray.serve import Serve
from specdec_core.engine.events import Step
from specdec_core.settings import Settings

from . import stamped

EVENTS = 200  # of a run whose events' lateness is measured


def round_trips(family: Family, guesses: int) -> list[float]:
    """Milliseconds from each question to the next."""
    asked: list[float] = []

    def ask(_text: str) -> str:
        asked.append(time.perf_counter())
        return ""

    lane = Settings(proposer="you", max_new_tokens=guesses)
    for _ in family.race("Once upon a time", [lane], cancelled=lambda: False, ask=ask):
        pass
    return [1e3 * (after - before) for before, after in pairwise(asked)]


def throughput(decoders: Decoders, family: Family, runs: int, tokens: int) -> float:
    """Runs a second, all started at once and let through by a line, as a server does."""
    line = DeviceQueue(decoders.places)

    def one(seed: int) -> None:
        with line.turn(lambda: False, lambda place: None):
            lane = Settings(max_new_tokens=tokens, seed=seed)
            for _ in family.race("Once upon a time", [lane], cancelled=lambda: False, ask=str):
                pass

    began = time.perf_counter()
    with ThreadPoolExecutor(runs) as crowd:
        list(crowd.map(one, range(runs)))
    return runs / (time.perf_counter() - began)


def lateness(decoders: Decoders, family: Family) -> dict[str, float]:
    """Milliseconds from an event's leaving a decoder that waits to its arrival here, all decoders being busy."""

    def one(_number: int) -> list[float]:
        events = family.race("", [Settings(max_new_tokens=EVENTS)], cancelled=lambda: False, ask=str)
        return [1e3 * (time.time() - event.start_s) for event in events if isinstance(event, Step)]

    with ThreadPoolExecutor(decoders.places) as crowd:
        found = sorted(late for run in crowd.map(one, range(decoders.places)) for late in run)
    return {
        "median": round(statistics.median(found), 2),
        "of_100_the_99th": round(found[len(found) * 99 // 100], 2),
    }


def measure(decoders: Decoders, guesses: int, runs: int, tokens: int) -> dict[str, Any]:
    """The figures of some decoders; none of guesses if there are to be none."""
    try:
        family = decoders.load(ModelChoice())
        throughput(decoders, family, decoders.places, tokens=8)  # all of them are there
        found: dict[str, Any] = {"event_ms": lateness(decoders, family)}
        if guesses:
            round_trips(family, 8)
            trips = round_trips(family, guesses)
            found["guess_ms"] = {"median": round(statistics.median(trips), 2), "worst": round(max(trips), 2)}
        return {**found, "runs_per_s": round(throughput(decoders, family, runs, tokens), 3)}
    finally:
        decoders.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--guesses", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--waiting", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
    stamped.use(stamped.waiting if given.waiting else stamped.computing)
    size = (0, given.runs, 50) if given.waiting else (given.guesses, given.runs, 200)
    found["local"] = measure(Local(), *size)
    for count in dict.fromkeys((1, given.replicas)):
        found[f"serve, {count}"] = measure(Serve(Cluster(least=count, most=count)), *size)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
