"""Drafters by how often they are right and what a guess costs; the lines join points of equal speedup.

The plane is the formula's (modelled). A drafter's place on it is measured: α as counted, and the cost of one guess as
`theory.implied_cost` finds it from the measured speedup, including everything a round took beyond a plain pass.
Blind guessing takes no time, so its cost is the wider pass alone, from the width curve.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import plotly.graph_objects as go
from pydantic import Field, field_validator

from app.charts.chart import Chart, lay_out
from app.course.drawing.scene import Columns, Markdown, Part, Place, Values, choose, slide
from app.course.facts import proposers
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured
from app.theme import GREY, PAGE, SLOWER_FASTER, look
from specdec_measure import theory

STEPS = 40
LOW = 0.4  # lowest α shown if no drafter is right more often
LEVELS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
MAX_LENGTH = 12
SOMETIMES = ("prompt-lookup",)  # α counts judged guesses alone, and says nothing of rounds without any
SEEN = "none"  # the recorded text that blind guesses are tried on

_EXIT = re.compile(r"exit (\d+)")
_BLIND = re.compile(r"blind (uniform|repeat-last|unigram)")


class With(Strict):
    """`drafters`: proposers of measurements.json, `exit 3` (layers), `exits` (all measured), `blind unigram` ….

    `groups`: kinds of prompts; if several, the learner picks one. `lengths`: whether γ can be changed.
    """

    drafters: list[str] = Field(min_length=1, max_length=8)
    groups: list[str] = Field(["code"], min_length=1, max_length=6)
    lengths: bool = False
    gamma: int = Field(proposers.GAMMA, ge=1, le=MAX_LENGTH)
    picked: int = Field(0, ge=0)
    """The drafter that is looked at first."""

    @field_validator("groups")
    @classmethod
    def measured_there(cls, given: list[str]) -> list[str]:
        """Whether these prompts were measured."""
        for group in given:
            proposers.family_best(group)
        return given

    @field_validator("drafters")
    @classmethod
    def known(cls, given: list[str]) -> list[str]:
        """Whether each of them was measured."""
        found = [one for name in given for one in _expanded(name)]
        for name in found:
            if name in SOMETIMES:
                raise ValueError(
                    f"“{name}” does not guess in every round, which the formula of this plane assumes; leave it out"
                )
            if not _BLIND.fullmatch(name):
                _line(name, "code")
        return found


@dataclass(frozen=True, slots=True)
class Drafter:
    """A drafter on the plane; `measured` is None if nothing was timed."""

    name: str
    alpha: float
    cost: float
    measured: float | None
    gamma: int


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The choice of a drafter, of the draft length and of the text."""
    words = at.words
    parts: list[Part] = []
    if len(given.drafters) > 1:
        first = given.drafters[min(given.picked, len(given.drafters) - 1)]
        parts.append(
            slide("drafter", words("plane.drafter"), given.drafters, first, lambda name: title(name, words))
        )
    if given.lengths:
        parts.append(slide("length", words("plane.length"), range(1, MAX_LENGTH + 1), given.gamma))
    row: list[Part] = [Columns(parts)]
    if len(given.groups) > 1:
        named = lambda name: measured.name("text", name, words)  # noqa: E731
        row.append(choose("group", words("plane.group"), given.groups, given.groups[0], named))
    return row


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The plane, below a sentence on the chosen drafter."""
    gamma, group = values.get("length", given.gamma), values.get("group", given.groups[0])
    found = [dot(name, group, gamma) for name in given.drafters]
    picked = found[given.drafters.index(values.get("drafter", given.drafters[0]))]
    return [Markdown(summary(picked, gamma, at.words)), chart(found, picked, gamma, at.words)]


def dot(name: str, group: str, gamma: int) -> Drafter:
    """A drafter's position: measured with its own draft length, blind ones with the chosen one.

    Raises:
        ValueError: one sentence, if it was not measured on these prompts.
    """
    if blind := _BLIND.fullmatch(name):
        wider = (proposers.width_ratio(gamma + 1) - 1.0) / gamma
        return Drafter(name, proposers.blind_rate(blind[1], SEEN), max(0.0, wider), None, gamma)
    found, length = _line(name, group), proposers.length_of(name)
    cost = theory.implied_cost(found.speedup, found.tokens_per_pass, length)
    if found.alpha is None:
        raise ValueError(f"“{name}” has no acceptance rate: only chains have one.")
    return Drafter(name, found.alpha, max(0.0, cost), found.speedup, length)


def summary(chosen: Drafter, gamma: int, words: Words) -> str:
    """The selected drafter, in a sentence."""
    modelled = theory.speedup(chosen.alpha, gamma, chosen.cost)
    values = {
        "name": title(chosen.name, words),
        "alpha": chosen.alpha,
        "cost": chosen.cost,
        "modelled": modelled,
        "gamma": gamma,
        "once": chosen.gamma,
    }
    if chosen.measured is None:
        free = theory.speedup(chosen.alpha, gamma, 0.0)
        return words(
            "plane.summary_blind",
            **values,
            free=free,
            tokens=gamma + 1,
            wide=proposers.width_ratio(gamma + 1),
        )
    return words("plane.summary", **values, measured=chosen.measured)


def title(name: str, words: Words, short: bool = False) -> str:
    """A drafter's title."""
    if found := _EXIT.fullmatch(name):
        return words(
            "plane.layers" if short else "plane.exit", layer=int(found[1]), layers=proposers.target_layers()
        )
    if found := _BLIND.fullmatch(name):
        return words(f"plane.blind-{found[1]}")
    models = {"draft-model": "draft", "draft-model, larger": "draft-large"}
    if name in models:
        return words("plane.million" if short else "plane.draft", size=proposers.family_million(models[name]))
    return words(f"plane.lane-{name}")


def chart(found: Sequence[Drafter], chosen: Drafter, gamma: int, words: Words) -> Chart:
    """The plane with all dots, the chosen one larger."""
    widest = round(max(0.06, 1.2 * max(each.cost for each in found)), 4)
    tall = 1.0 if max(each.alpha for each in found) > LOW else LOW
    figure = _field(gamma, widest, tall, words)
    exits = sorted((each.cost, each.alpha) for each in found if _EXIT.fullmatch(each.name))
    if len(exits) > 1:
        x, y = zip(*exits, strict=True)
        dotted = {"width": 2, "dash": "dot", "color": look(2).colour}
        figure.add_scatter(x=x, y=y, mode="lines", hoverinfo="skip", line=dotted)
    others = [each for each in found if each is not chosen]
    for dots, place, size in ((others, 2, 11), ([chosen], 1, 18)):
        figure.add_scatter(
            x=[each.cost for each in dots],
            y=[each.alpha for each in dots],
            mode="markers+text",
            text=[words("plane.label", name=title(each.name, words, short=size < 18)) for each in dots],
            textposition=[_beside(each, found, chosen, widest, tall) for each in dots],
            textfont={"size": 15 if size == 18 else 13},
            cliponaxis=False,
            marker={
                "symbol": look(place).symbol, "size": size, "color": look(place).colour,
                "line": {"width": 2, "color": PAGE.light},
            },
            customdata=[title(each.name, words) for each in dots],
            hovertemplate="%{customdata}<br>α = %{y:.1%}, c = %{x:.2f}<extra></extra>",
        )  # fmt: skip
    lay_out(
        figure,
        420,
        {"title": words("plane.x"), "range": [-0.02 * widest, 1.02 * widest], "showgrid": False, "nticks": 6},
        {
            "title": words("plane.y"),
            "range": [-0.05 * tall, 1.05 * tall],
            "tickformat": ".0%",
            "showgrid": False,
            "tickvals": [tall * at / 4 for at in range(5)],
        },
    )
    said = " ".join(
        words(
            "plane.said",
            name=title(each.name, words),
            alpha=each.alpha,
            cost=each.cost,
            speed=theory.speedup(each.alpha, gamma, each.cost),
        )
        for each in found
    )
    figures = measured.card().figures
    return Chart(
        figure,
        words("plane.title", gamma=gamma),
        words(
            "plane.source_blind" if chosen.measured is None else "plane.source",
            machine=figures.machine,
            date=figures.date[:10],
        ),
        words("plane.alt", said=said),
    )


def _field(gamma: int, widest: float, tall: float, words: Words) -> go.Figure:
    """The speedups as colours, with a named line along each level."""
    costs, rates, speeds = surface(gamma, widest, tall)
    figure = go.Figure()
    figure.add_heatmap(
        x=costs,
        y=rates,
        z=[[round(_shade(speed), 3) for speed in row] for row in speeds],
        zmin=-1.0,
        zmax=1.0,
        zsmooth="best",
        customdata=[[round(speed, 2) for speed in row] for row in speeds],
        colorscale=SLOWER_FASTER,
        showscale=False,
        hovertemplate=words("plane.hover") + "<extra></extra>",
    )
    for level in LEVELS:
        line = alike(level, gamma, widest, tall)
        if len(line) < 2:
            continue
        figure.add_scatter(
            x=[cost for cost, _ in line],
            y=[alpha for _, alpha in line],
            mode="lines",
            line={"width": 3 if level == 1.0 else 1, "color": GREY},
            hoverinfo="skip",
        )
        cost, alpha = line[len(line) // 8 if level > 1.0 else -len(line) // 5]
        figure.add_annotation(
            x=cost, y=alpha, text=f"{words.number(level, 'g')}×", showarrow=False, yshift=9, font={"size": 13}
        )
    return figure


def _beside(one: Drafter, found: Sequence[Drafter], chosen: Drafter, widest: float, tall: float) -> str:
    """The side on which a dot's name has room: the chosen one's below it, two close ones on opposite sides."""
    if one is chosen:
        return "bottom center" if one.alpha > 0.15 * tall else "middle right"
    low = one.alpha <= 0.15 * tall
    near = [
        each
        for each in found
        if each is not one
        and (low or each is not chosen)
        and abs(each.alpha - one.alpha) < 0.06 * tall
        and abs(each.cost - one.cost) < 0.12 * widest
    ]
    if not near:
        return "top center"
    sides = ("middle left", "middle right") if low else ("top center", "bottom center")
    places = [(each.cost, each is chosen, found.index(each)) for each in near]
    return sides[(one.cost, False, found.index(one)) > min(places)]


@lru_cache(maxsize=64)
def surface(gamma: int, widest: float, tall: float) -> tuple[list[float], list[float], list[list[float]]]:
    """Costs, rates, and the formula's speedup for each rate and each cost."""
    costs = [widest * at / STEPS for at in range(STEPS + 1)]
    rates = [tall * at / STEPS for at in range(STEPS + 1)]
    return costs, rates, [[theory.speedup(alpha, gamma, cost) for cost in costs] for alpha in rates]


@lru_cache(maxsize=512)
def alike(level: float, gamma: int, widest: float, tall: float) -> tuple[tuple[float, float], ...]:
    """Where the formula's speedup is `level`: (cost, α) by rising cost, for the visible α."""
    found = []
    for at in range(STEPS + 1):
        cost = widest * at / STEPS
        low, high = 0.0, 1.0
        if not theory.speedup(low, gamma, cost) <= level <= theory.speedup(high, gamma, cost):
            continue
        while high - low > 1e-4:  # the speedup rises with α
            middle = (low + high) / 2
            low, high = (middle, high) if theory.speedup(middle, gamma, cost) < level else (low, middle)
        if low <= tall:
            found.append((round(cost, 5), round(low, 4)))
    return tuple(found)


def _expanded(name: str) -> list[str]:
    return [f"exit {layer}" for layer in proposers.exit_layers()] if name == "exits" else [name]


def _line(name: str, group: str) -> measured.LaneFigures:
    if found := _EXIT.fullmatch(name):
        return proposers.exit_line(int(found[1]))
    return proposers.line(name, group)


def _shade(speed: float) -> float:
    """Logarithmic position on the colour scale, from a third as fast to three times as fast."""
    return max(-1.0, min(1.0, log(speed) / log(3.0)))
