"""What a decoder loses when another one computes on the same machine, with and without a crew that gives way.

    python -m benchmarks.crowded                       the small chat model, plain and with its EAGLE head
    python -m benchmarks.crowded --tokens 32 --turns 2

A decoder alone, then two at once, each in a process of its own: first with all threads throughout, then as it is (see
`specdec_core.runtime.thread_tuner`). Tokens per second of one of the two, medians over the turns, which alternate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Literal

Crews = Literal["fixed", "giving way"]
LANES = {"plain": {"proposer": "none"}, "EAGLE": {"proposer": "eagle", "length_policy": "cost-aware"}}
PROMPT = "How do bees make honey?"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    given = _arguments(argv)
    context = get_context("spawn")
    pipes, children = [], []
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=decoder, args=(there, given.family, given.tokens), daemon=True)
        child.start()
        pipes.append(here)
        children.append(child)
    for pipe in pipes:
        pipe.recv()  # loaded
    found: dict[tuple[Crews, int, str], list[float]] = {}
    crews: tuple[Crews, Crews] = ("fixed", "giving way")
    for _ in range(given.turns):
        for crew in crews:
            for busy in (1, 2):
                for lane in LANES:
                    for pipe in pipes[:busy]:
                        pipe.send((crew, lane))
                    found.setdefault((crew, busy, lane), []).extend(pipe.recv() for pipe in pipes[:busy])
    for pipe in pipes:
        pipe.send(None)
    print(f"{'tokens per second':24}{'alone':>10}{'beside another':>18}")
    for crew in crews:
        for lane in LANES:
            alone, beside = (median(found[crew, busy, lane]) for busy in (1, 2))
            print(f"{lane + ', threads ' + crew:24}{alone:10.1f}{beside:18.1f}")
    for child in children:
        child.join()


def decoder(pipe: Connection, family: str, tokens: int) -> None:
    """Load, then decode once per request, and answer with the tokens per second."""
    import specdec_core as sd
    from specdec_core.runtime.thread_tuner import ThreadTuner

    models = sd.load_models(family, device="cpu", dtype="float32")
    prompt = models.chat(PROMPT) if models.chat_template else PROMPT
    for lane in LANES.values():
        sd.decode(models, prompt, sd.Settings(max_new_tokens=8, **lane))
    pipe.send(None)
    while (asked := pipe.recv()) is not None:
        crew, lane = asked
        # a new one each time, which knows nothing of the crowd before
        sd.Models.thread_tuner = ThreadTuner(models.threads, computing=crew != "fixed")  # type: ignore[method-assign, assignment]
        began = time.perf_counter()
        trace = sd.decode(models, prompt, sd.Settings(max_new_tokens=tokens, record="off", **LANES[lane]))
        seconds = time.perf_counter() - began
        pipe.send(trace.stats.tokens / seconds)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowded", description=__doc__.splitlines()[0])
    parser.add_argument("--family", default="smollm2-135m-instruct", help="as for load_models")
    parser.add_argument("--tokens", type=int, default=64, help="written in each run")
    parser.add_argument("--turns", type=int, default=5)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
