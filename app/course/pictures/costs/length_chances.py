"""The outcome of each guess of a draft, over all rounds: used, refused, or never looked at."""

from __future__ import annotations

from itertools import pairwise

import plotly.graph_objects as go
from pydantic import Field

from app.charts.chart import ABOVE, Chart, lay_out
from app.course.drawing.scene import Part, Place, Values
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.theme import BLUE, GOLD, GREY, ORANGE, TEXT, WHITE, fill, mixed
from specdec_measure import theory

LOOKS = {
    "used": (BLUE, ""),
    "refused": (ORANGE, "x"),
    "unseen": (GREY, "."),
    "own": (GOLD, ""),
}


class With(Strict):
    """`alpha`: the probability of each guess if those before it passed; `gamma`: how many there are."""

    alpha: float = Field(ge=0.0, le=1.0)
    gamma: int = Field(ge=1, le=12)


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The columns."""
    return [columns(given.alpha, given.gamma, at.words)]


def columns(alpha: float, gamma: int, words: Words) -> Chart:
    """A column for each guess and one for the target's own token, in shares of all rounds."""
    parts = shares(alpha, gamma)
    names = [f"{number}" for number in range(1, gamma + 1)]
    names.append(words("length-chances.own"))
    figure = go.Figure()
    for part, look in LOOKS.items():
        values = parts[part]
        figure.add_bar(
            name=words(f"length-chances.legend_{part}"),
            x=names,
            y=values,
            text=[words.number(value, ".0%") if value >= 0.045 else "" for value in values],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"size": 13, "color": WHITE if part in ("used", "own") else TEXT.light},
            marker=fill(*look) if part in ("used", "own") else _faint(*look),
            hovertemplate="%{x}: %{y:.1%}<extra>" + words(f"length-chances.legend_{part}") + "</extra>",
        )
    lay_out(
        figure,
        380,
        {"title": words("length-chances.guesses"), "type": "category", "tickfont": {"size": 14}},
        {"title": words("length-chances.rounds"), "range": [0, 1], "tickformat": ".0%", "zeroline": True},
        legend=ABOVE | {"traceorder": "normal"},
        barmode="stack",
        bargap=0.18,
    )
    sums = " + ".join(words.number(value, ".2f") for value in [*parts["used"][:-1], 1.0])
    total = theory.tokens_per_pass(alpha, gamma)
    said = words(
        "length-chances.alt", used=", ".join(words.number(value, ".0%") for value in parts["used"][:-1])
    )
    return Chart(
        figure,
        words("length-chances.title", sum=sums, total=total),
        words("length-chances.exact", alpha=words.number(alpha, ".0%")),
        said,
    )


def shares(alpha: float, gamma: int) -> dict[str, list[float]]:
    """By outcome: the share of rounds for each guess and, last, for the target's own token."""
    reached = [theory.tokens_per_pass(alpha, depth) for depth in range(gamma + 1)]  # 1 + α + … + α^depth
    used = [longer - shorter for shorter, longer in pairwise(reached)]
    before = [1.0, *used[:-1]]
    return {
        "used": [*used, 0.0],
        "refused": [*(came - kept for came, kept in zip(before, used, strict=True)), 0.0],
        "unseen": [*(1.0 - came for came in before), 0.0],
        "own": [0.0] * gamma + [1.0],
    }


def _faint(colour: str, pattern: str) -> dict[str, object]:
    """Pale, under a pattern: the token is not in the text."""
    return {
        "color": mixed(colour, 0.2),  # dark text must be legible on it in either theme
        "pattern": {"shape": pattern, "size": 8, "solidity": 0.2, "fillmode": "overlay", "fgcolor": colour},
        "line": {"width": 1, "color": colour},
    }
