"""The live page's engine in node against the decoder on new prompts: the same tokens, guesses and verdicts?

    python -m benchmarks.engines.live                  200 prompts, the first 100 of benchmarks/heads_prompts.jsonl and
                                                       heads_people.jsonl each, which no training has seen; greedy and
                                                       sampled, a seed for each
    python -m benchmarks.engines.live --limit 400      further ones
    python -m benchmarks.engines.live --build plain    without fused sums

Two runs agree if every round has the same guesses, verdicts and committed tokens. Where greedy texts part, the
decoder's two most likely tokens are named with their probabilities' difference. Where sampled runs part, a random
number was at an edge: between two tokens of a distribution, or at a threshold. It is named by how far the decoder's own
number has to be moved for its whole run to be the engine's. Below 1e-4 rounding decides; the rest is a fault.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import specdec_core as sd
from specdec_measure.sweep import cases
from tests.live.engine import CLOSE, lane, node, rounds, tie
from tests.live.ties import Moving, edges

HERE = Path(__file__).parents[1]
FILES = ("heads_prompts.jsonl", "heads_people.jsonl")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"proposer": "none"},
    {"proposer": "draft-model"},
    {"proposer": "prompt-lookup"},
    {"proposer": "branching"},
    {"proposer": "none", "temperature": 0.7},
    {"proposer": "draft-model", "temperature": 1.0},
    {"proposer": "prompt-lookup", "temperature": 0.7},
    {"proposer": "branching", "temperature": 1.0},
)
TOKENS, AT_ONCE = 48, 30


def prompts(limit: int) -> Iterator[str]:
    """Those of both files; none is a shipped one."""
    shipped = {case.prompt for case in cases.shipped()}
    for name in FILES:
        lines = (HERE / name).read_text(encoding="utf-8").splitlines()[:limit]
        yield from (text for text in (json.loads(line)["prompt"] for line in lines) if text not in shipped)


def main() -> None:
    """Compare, and print what parts."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--limit", type=int, default=100)
    asked.add_argument("--build", choices=("relaxed", "plain"), default="relaxed")
    given = asked.parse_args()
    models, texts, moving = sd.load_models(device="cpu"), list(prompts(given.limit)), Moving()
    print(f"{len(texts)} prompts, {TOKENS} tokens", flush=True)
    faults = 0
    for chosen in SETTINGS:
        same, ties, tokens = 0, 0, 0
        for first in range(0, len(texts), AT_ONCE):
            some = texts[first : first + AT_ONCE]
            wanted = [
                sd.Settings(max_new_tokens=TOKENS, seed=first + at, **chosen) for at in range(len(some))
            ]
            runs = [{"prompt": text, "lanes": [lane(one)]} for text, one in zip(some, wanted, strict=True)]
            for text, one, run in zip(
                some, wanted, node("runs", build=given.build, brief=True, runs=runs), strict=True
            ):
                engine = run["traces"][0]
                core = moving.decode(models, text, one)
                tokens += len(core["output"]["ids"])
                if rounds(core) == rounds(engine):
                    same += 1
                    continue
                why = edges(models, text, one, engine, moving) if one.temperature else tie(core, engine)
                near = isinstance(why, dict) or (isinstance(why, float) and why < CLOSE)
                ties, faults = ties + near, faults + (not near)
                print(
                    f"  {'tie' if near else 'FAULT'} {chosen} seed {one.seed}: {why} {text[:40]!r}",
                    flush=True,
                )
        print(
            f"{chosen}: {same} runs agree, {ties} up to a tie, of {len(texts)}; {tokens} tokens", flush=True
        )
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
