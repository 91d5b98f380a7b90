"""Whether greedy speculation writes what plain decoding writes: `python -m benchmarks equal`.

The chat model answers prompts that nobody tuned on; of each prompt's answers `--each` are by other ways of guessing,
taken in turn from proposers, trees and draft lengths. Answers that differ are named.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import specdec_core as sd
from specdec_core.models import catalogue

HERE = Path(__file__).parent
FILES = ("heads_people.jsonl", "heads_prompts.jsonl")
CHAINS = ("draft-model", "prompt-lookup", "suffix")
LENGTHS = (1, 2, 4, 7, 12)
TREES = ((2, 2, 3), (3, 1, 3), (3, 4, 12), (5, 4, 16), (6, 8, 60))  # levels, followed per level, tokens sent
WAYS: list[dict[str, Any]] = [
    *({"proposer": name, "draft_length": length} for name in CHAINS for length in LENGTHS),
    *({"proposer": name, "options": dict(zip(("depth", "top_k", "nodes"), tree, strict=True))}
      for name in ("eagle", "eagle3") for tree in TREES),
    *({"proposer": "medusa", "options": {"nodes": nodes}} for nodes in (2, 8, 32)),
    *({"proposer": "branching", "options": {"width": width, "nodes": nodes}} for width, nodes in ((2, 6), (4, 24))),
    {"proposer": "draft-model", "draft_length": 6, "length_policy": "cost-aware"},
    {"proposer": "draft-model", "draft_length": 6, "length_policy": "confidence"},
    {"proposer": "text-draft", "draft_length": 4}, {"proposer": "early-exit", "draft_length": 4},
    {"proposer": "lookahead"}, {"proposer": "recycling"}, {"proposer": "combined"},
]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Write the answers and compare them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks equal", description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--each", type=int, default=6, help="ways beside plain decoding, for each prompt")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--weights", default="8-bit")
    given = parser.parse_args(argv)
    lines = [line for file in FILES for line in (HERE / file).read_text(encoding="utf-8").splitlines()]
    models = sd.load_models(catalogue.CHAT, device="cpu", weights=given.weights)
    common = sd.Settings(max_new_tokens=given.tokens, record="off")
    compared, equal, ways = Counter[str](), Counter[str](), cycle(WAYS)
    for line in lines[: given.prompts]:
        prompt = sd.Chat(json.loads(line)["prompt"])
        plain = sd.decode(models, prompt, common.but(proposer="none")).token_ids
        for way in islice(ways, given.each):
            found = sd.decode(models, prompt, common.but(**way)).token_ids
            compared[way["proposer"]] += 1
            equal[way["proposer"]] += found == plain
            if found != plain:
                place = next(
                    (at for at, pair in enumerate(zip(plain, found, strict=False)) if len(set(pair)) > 1), -1
                )
                print(f"differs from token {place} on: {json.dumps(way)}, {line}", flush=True)
    prompts = min(given.prompts, len(lines))
    print(
        f"\n{models.target.info.name}, {prompts} prompts, {len(WAYS)} ways\n\n"
        "| proposer | equal | answers |\n|---|---|---|"
    )
    for name, count in compared.items():
        print(f"| {name} | {equal[name]} | {count} |")
