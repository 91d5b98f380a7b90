"""The card of the chat family as text: tables of its figures, and what was hoped for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.chat.card import HERE
from training.chat.heads import RANKS
from training.results.card import loop_words, row_of, table

FAILURES = HERE / "failures.md"  # written by hand after reading the output
UNMEASURED = "Not measured yet for these weights: `python -m training chat card` on an idle machine does it."
WANTED = (  # the project's targets for the family: kind of prompt, lane, figure, least value
    ("chat", "eagle", "tokens_per_pass", 2.1),
    ("code", "eagle", "tokens_per_pass", 2.4),
    ("edits", "eagle", "tokens_per_pass", 2.6),
    ("edits", "eagle, tree of 59", "tokens_per_pass", 2.6),  # EAGLE-2's own
    ("chat", "medusa", "tokens_per_pass", 1.5),
    ("code", "medusa", "tokens_per_pass", 1.8),
    ("chat", "draft-model", "tokens_per_pass", 1.7),
    ("code", "draft-model", "tokens_per_pass", 2.0),
    ("edits", "prompt-lookup", "tokens_per_pass", 3.5),
    ("chat", "best", "speedup", 1.5),
    ("code", "best", "speedup", 1.8),
    ("edits", "best", "speedup", 3.0),
)
MEASUREMENTS = "smollm2-measurements.json"


def render(found: dict[str, Any]) -> str:
    """The card: `card.md` with every number filled in."""
    text = (HERE / "card.md").read_text(encoding="utf-8")
    before, rest = text.split("{{figures-begin}}\n")
    measured, after = rest.split("{{figures-end}}\n")
    text = before + (measured if found["sets"] else f"{UNMEASURED}\n") + after
    values = {
        "measured": found["date"],
        "machine": found["machine"],
        "tokens": str(found["tokens"]),
        "repeats": str(found["repeats"]),
        "loop": loop_words(found),
        "sizes": table(
            ["part", "parameters"],
            [[name, f"{count:,}"] for name, count in found["parameters"].items() if count],
        ),
        "widths": widths(found["curve"]) if found["sets"] else "",
        "training": training_table(found),
        "figures": "\n\n".join(figure_table(found, name) for name in found["sets"]),
        "wanted": wanted_table(found) if found["sets"] else "",
        "equality": "\n".join(
            equality_words(name, found["sets"][name]["equality"]) for name in found["sets"]
        ),
        "failures": FAILURES.read_text(encoding="utf-8").strip(),
        "ranks": str(RANKS),
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def widths(curve: dict[str, Any]) -> str:
    """The time of a target pass by the number of its tokens, and of a draft pass."""
    said = [f"T({n}) = {1e3 * s:.0f} ms" for n, s in zip(curve["widths"], curve["seconds"], strict=True)]
    if curve["draft_s"]:
        said.append(f"a draft pass {1e3 * curve['draft_s']:.1f} ms")
    return ", ".join(said)


def training_table(found: dict[str, Any]) -> str:
    """Steps, tokens and time of each run, and the curve of its first guess."""
    rows = []
    for part, run in found["training"].items():
        curve = run["curve"]
        thinned = curve[:: max(1, len(curve) // 6)]
        if curve and thinned[-1] != curve[-1]:
            thinned.append(curve[-1])
        said = ", ".join(f"{tokens / 1e3:,.0f} k: {share:.2f}" for tokens, share in thinned)
        rows.append([part, f"{run['step']:,}", f"{run['tokens']:,}", f"{run['seconds'] / 60:.1f}", said])
    return table(["part", "steps", "tokens", "minutes", "first guess right, by tokens seen"], rows)


def figure_table(found: dict[str, Any], name: str) -> str:
    """Tokens per pass → speedup by kind of prompt, all prompts and without loops."""
    kinds = found["sets"][name]["kinds"]
    labels = list(next(iter(kinds.values()))["all"]["lanes"])
    rows = []
    for kind, groups in kinds.items():
        for which in ("all", "no loops"):
            group = groups[which]
            if group is None or (which == "no loops" and not groups["loops"]):
                continue
            lines = group["lanes"]
            head = f"{kind} ({lines[labels[0]]['prompts']})" + (
                ", without loops" if which == "no loops" else ""
            )
            cells = []
            for label in labels:
                mark = "**" if label == group["best"] else ""
                alpha = lines[label]["alpha"]
                cells.append(
                    f"{lines[label]['tokens_per_pass']:.2f} → {mark}{lines[label]['speedup']:.2f}×{mark}"
                    + (f", α {alpha:.2f}" if alpha is not None else "")
                )
            rows.append([head, *cells])
    loops = ", ".join(f"{kind} {groups['loops']}" for kind, groups in kinds.items())
    return f"Prompts: {name}. Answers that loop: {loops}.\n\n" + table(["prompts", *labels], rows)


def equality_words(name: str, measured: dict[str, Any]) -> str:
    """How many greedy texts were equal, and every fork."""
    forks = measured["forks"]
    prompts, lanes = measured["generate"], measured["lanes"]
    generate_forks = sum(fork["lane"] == "generate" for fork in forks)
    lane_forks = len(forks) - generate_forks
    said = (
        f"- {name}: plain decoding equals `generate` on {prompts - generate_forks} of {prompts} prompts, and a lane "
        f"equals plain decoding in {lanes - lane_forks} of {lanes} texts."
    )
    listed = [
        f"{fork['prompt']}, {fork['lane']}: token {fork['at']}, margin {fork['margin']:.1e}" for fork in forks
    ]
    return f"{said} Forks: {'; '.join(listed)}." if listed else said


def wanted_table(found: dict[str, Any]) -> str:
    """Targets next to what was measured, on both sets of prompts."""
    rows = []
    for kind, label, figure, least in WANTED:
        for name, content in found["sets"].items():
            group = content["kinds"].get(kind, {}).get("all")
            best = group["best"] if group and label == "best" else label
            value = group["lanes"].get(best, {}).get(figure) if group else None
            said = f"{label} ({best})" if label == "best" else label
            rows.append(row_of(f"{kind}, {said}, {figure.replace('_', ' ')}, {name}", least, value))
    return table(["figure", "goal", "measured", "met"], rows)


def write_card(folder: Path, found: dict[str, Any]) -> None:
    """Write `smollm2.md` and its figures as JSON into the models' folder."""
    (folder / MEASUREMENTS).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "smollm2.md").write_text(render(found), encoding="utf-8")
