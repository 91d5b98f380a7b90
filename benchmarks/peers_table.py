"""What benchmarks/peers.py measured: speeds, ratios, and whether the texts are the lab's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

NEAR = 0.1  # nats between two tokens, of which another order of the same sums may take either
OURS, LLAMA, OPENVINO = "lab", "llama.cpp", "OpenVINO"
PLAIN = "none"
KINDS = ("chat", "code", "edit")

Runs = dict[str, dict[str, dict[str, Any]]]
"""By way, by prompt ("chat 1"): `ids`, `tokens` and `seconds`."""
Margin = Callable[[Sequence[int], int, int], float]
"""By how much the likelier of two tokens is likelier after some ids, in float32, in nats."""


def way(bits: str, proposer: str) -> str:
    """The name of one way of the lab."""
    return f"{OURS} {bits}, {'plain' if proposer == PLAIN else proposer.replace('-', ' ')}"


def rates(runs: Mapping[str, Mapping[str, Any]], name: str, kind: str) -> dict[str, float]:
    """Tokens per second of a way by prompt of a kind."""
    of = runs.get(name, {})
    return {
        prompt: len(run["tokens"]) / run["seconds"]
        for prompt, run in of.items()
        if prompt.rsplit(" ", 1)[0] == kind
    }


def speed(runs: Runs, name: str, kind: str) -> float:
    """The median of that."""
    return median(rates(runs, name, kind).values())


def ratio(runs: Runs, one: str, other: str, kind: str) -> float:
    """How many times as fast `one` is as `other`: the median over the prompts of a kind that both have answered."""
    theirs = rates(runs, other, kind)
    return median(
        rate / theirs[prompt] for prompt, rate in rates(runs, one, kind).items() if prompt in theirs
    )


def fastest(runs: Runs, start: str, kind: str) -> str:
    """The way with the highest median of those whose name starts so."""
    return max((name for name in runs if name.startswith(start)), key=lambda name: speed(runs, name, kind))


def parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Where two texts have different tokens; None where one is the other or its beginning."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)


def partings(runs: Runs, name: str, other: str, margin: Margin) -> list[float]:
    """For each prompt on which a way has not the text of another: the margin between both where they part."""
    found = []
    for prompt, run in runs[name].items():
        theirs = runs[other][prompt]["tokens"]
        at = parting(run["tokens"], theirs)
        if at is not None:
            found.append(margin([*run["ids"], *theirs[:at]], theirs[at], run["tokens"][at]))
    return found


def speeds(runs: Runs, margin: Margin) -> list[list[str]]:
    """A row for each way: tokens per second on each kind, against the plain way of the same numbers, and the texts."""
    rows = []
    for name in runs:
        plain = f"{name.split(',')[0]}, plain"
        texts = [
            len(runs[name]) - len(away := partings(runs, name, way("16-bit", PLAIN), margin)),
            len(runs[name]),
        ]
        own = "" if name == plain else str(len(runs[name]) - len(partings(runs, name, plain, margin)))
        rows.append(
            [
                name,
                *(f"{speed(runs, name, kind):.0f}" for kind in KINDS),
                *("" if name == plain else f"{ratio(runs, name, plain, kind):.2f}" for kind in KINDS),
                own,
                f"{texts[0]} of {texts[1]}",
                f"{max(away):.2f}" if away else "",
            ]
        )
    return rows


SPEEDS = (
    "tokens/s, the prompt included",
    *KINDS,
    *(f"{kind} / plain" for kind in KINDS),
    "texts of its plain way",
    "texts of the lab's 16 bits",
    "widest margin where they part, nats",
)


def ratios(runs: Runs) -> list[list[str]]:
    """A row for each question: the lab over a peer on each kind."""
    eight, sixteen = way("8-bit", PLAIN), way("16-bit", PLAIN)
    pairs = [
        ("plain, 8 bits / 16 bits", eight, sixteen),
        ("plain, 16 bits / llama.cpp F16", sixteen, f"{LLAMA} F16, plain"),
        ("plain, 16 bits / OpenVINO F16", sixteen, f"{OPENVINO} F16, plain"),
        ("plain, 8 bits / llama.cpp Q8_0", eight, f"{LLAMA} Q8_0, plain"),
        ("plain, 8 bits / OpenVINO Q8_0", eight, f"{OPENVINO} Q8_0, plain"),
        ("plain, 8 bits / llama.cpp Q4_1", eight, f"{LLAMA} Q4_1, plain"),
        ("plain, 8 bits / OpenVINO Q4_1", eight, f"{OPENVINO} Q4_1, plain"),
    ]
    rows = [[name, *(f"{ratio(runs, one, other, kind):.2f}" for kind in KINDS)] for name, one, other in pairs]
    for peer in (f"{LLAMA} Q8_0", f"{OPENVINO} Q8_0", LLAMA, OPENVINO):
        cells = []
        for kind in KINDS:
            one, other = fastest(runs, f"{OURS} 8-bit", kind), fastest(runs, peer, kind)
            cells.append(f"{ratio(runs, one, other, kind):.2f} ({_short(one)} / {_short(other)})")
        rows.append([f"fastest way, 8 bits / {peer}{'' if ' ' in peer else ', all its files'}", *cells])
    return rows


def _short(name: str) -> str:
    """A way without its program."""
    return name.split(" ", 1)[1]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
