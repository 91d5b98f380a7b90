"""Which length or tree pays at which width curve: `python -m benchmarks.drafts.curves`.

The chat model answers questions of people once with each way of guessing; a round's time is then modelled by each curve
T(n)/T(1), .06 for a level drafted and .05 for the rest. Printed per curve and proposer: the best ways, by the median
of the modelled speedup.
"""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median
from typing import Any

import specdec_core as sd
from specdec_core.models import catalogue

from ..quality import QUESTIONS

EVERY, TOKENS = 16, 64
LEVEL, REST = 0.06, 0.05  # of T(1)
CURVES = {
    "flat, as on a GPU with one request": {1: 1.0, 64: 1.1},
    "two cores, 8 bits": {1: 1.0, 2: 1.04, 3: 1.13, 5: 1.29, 9: 1.77, 17: 3.1, 33: 6.0},
    "two cores, 16 bits": {1: 1.0, 5: 1.36, 17: 3.3, 33: 5.9},
}
TREES = ((2, 2, 3), (3, 2, 5), (3, 3, 8), (5, 4, 16), (6, 8, 40))
WAYS: dict[str, dict[str, Any]] = {
    **{f"draft model, γ = {length}": {"draft_length": length} for length in (1, 2, 3, 4, 6, 8)},
    "draft model, up to 6 while confident": {"draft_length": 6, "length_policy": "confidence"},
    **{
        f"EAGLE, {nodes} tokens in {depth} levels": {
            "proposer": "eagle", "options": {"depth": depth, "top_k": top_k, "nodes": nodes},
        }
        for depth, top_k, nodes in TREES
    },
    **{f"Medusa, {nodes} tokens": {"proposer": "medusa", "options": {"nodes": nodes}} for nodes in (1, 2, 8, 16)},
}  # fmt: skip


def time(curve: dict[int, float], width: int) -> float:
    """T(width)/T(1): between the curve's points, or on along its last piece."""
    pieces = list(pairwise(sorted(curve.items())))
    (a, low), (b, high) = next((piece for piece in pieces if width <= piece[1][0]), pieces[-1])
    return low + (high - low) * (width - a) / (b - a)


def main() -> None:
    """Decode, model and print."""
    models = sd.load_models(catalogue.CHAT, device="cpu")
    found: dict[tuple[str, str], list[float]] = {}
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines()[::EVERY]:
        for way, settings in WAYS.items():
            trace = sd.decode(
                models, sd.Chat(json.loads(line)["prompt"]), sd.Settings(max_new_tokens=TOKENS, **settings)
            )
            for name, curve in CURVES.items():
                spent = sum(
                    time(curve, len(one.nodes.token) + 1) + LEVEL * one.draft_passes + REST
                    for one in trace.rounds
                )
                found.setdefault((name, way), []).append((1 + REST) * trace.stats.tokens / spent)
    for name in CURVES:
        for kind in ("draft", "EAGLE", "Medusa"):
            ways = sorted(
                ((median(found[name, way]), way) for way in WAYS if way.startswith(kind)), reverse=True
            )
            print(name, *(f"{way} {gain:.2f}×" for gain, way in ways[:3]), sep="; ")


if __name__ == "__main__":
    main()
