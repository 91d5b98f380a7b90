"""How did the losses fall? Draws loss logs as a small SVG, without any plotting package."""

from __future__ import annotations

import json
import math
from pathlib import Path

COLOURS = ("#1f5fa8", "#c2571a", "#2f7d4f", "#7a4fa3", "#a8326e", "#5f6b1f", "#4a4a4a")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 420, 56, 44, 48, 16


def read_losses(log: Path) -> list[tuple[int, float]]:
    """(tokens, loss) rows of a run's log; a clear error where there is no log."""
    if not log.is_file():
        raise ValueError(f"No loss log at {log}: train this model first.")
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [(row["tokens"], row["loss"]) for row in rows if "loss" in row]


def read_heldout(logs: list[Path]) -> dict[str, list[tuple[int, float]]]:
    """(tokens, held-out loss) by family over runs that follow one another; their tokens are added up."""
    found: dict[str, list[tuple[int, float]]] = {}
    before = 0
    for log in logs:
        rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            for family, loss in row.get("heldout", {}).items():
                found.setdefault(family, []).append((before + row["tokens"], loss))
        before += max(row["tokens"] for row in rows)
    return found


def smooth(points: list[tuple[int, float]], span: int = 9, most: int = 300) -> list[tuple[int, float]]:
    """Running mean over `span` points, thinned to at most `most` points."""
    means = []
    for index in range(len(points)):
        part = points[max(0, index - span + 1) : index + 1]
        means.append((points[index][0], sum(loss for _, loss in part) / len(part)))
    stride = max(1, math.ceil(len(means) / most))
    return means[::stride]


def loss_plot(curves: dict[str, list[tuple[int, float]]], title: str = "Training loss", span: int = 9) -> str:
    """An SVG picture of named (tokens, loss) curves, each a mean over `span` points; nats per token."""
    smoothed = {name: smooth(points, span) for name, points in curves.items() if points}
    if not smoothed:
        raise ValueError("There is nothing to plot: the logs hold no loss rows.")
    most_tokens = max(points[-1][0] for points in smoothed.values())
    most_loss = math.ceil(max(min(loss, 7.0) for points in smoothed.values() for _, loss in points))

    def x(tokens: float) -> float:
        return LEFT + tokens / most_tokens * (WIDTH - LEFT - RIGHT)

    def y(loss: float) -> float:
        return HEIGHT - BOTTOM - min(loss, most_loss) / most_loss * (HEIGHT - BOTTOM - TOP)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for level in range(most_loss + 1):
        out.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#dddddd"/>'
        )
        out.append(f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level}</text>')
    stride = max(1, round(most_tokens / 1e6 / 8))
    for millions in range(0, int(most_tokens / 1e6) + 1, stride):
        out.append(
            f'<text x="{x(millions * 1e6):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{millions}</text>'
        )
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">million tokens</text>')
    out.append(f'<text x="{LEFT}" y="17">{title}, nats per token</text>')
    for number, (name, points) in enumerate(smoothed.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(tokens):.1f},{y(loss):.1f}" for tokens, loss in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        out.append(f'<text x="{LEFT + number * 92}" y="37" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])
