"""Speedup over α and γ as a surface: its ridge of best γ, the measurements, and a cut through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import plotly.graph_objects as go
from pydantic import Field

from app.charts import contours
from app.charts.chart import Chart, below, lay_out
from app.course.drawing.scene import Columns, Markdown, Part, Place, Values, scale
from app.course.facts.designs import CHAINS, GAMMA
from app.course.facts.formulas import MAX_GAMMA, best_length_sloped, speedup_sloped
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured
from app.metrics import numbers
from app.records import examples as recorded
from app.theme import BLUE, GOLD, GREY, ORANGE, PAGE, PURPLE, SLOWER_FASTER, TEXT, mixed
from specdec_core.settings import Settings

RATES = [at / 40 for at in range(41)]
LEVELS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
PIXELS = (390, 18)  # about as many as α = 1 and γ = 1 are


class With(Strict):
    """The sliders' initial values: α, c and v; c and v are the measured ones if left out."""

    alpha: float = Field(0.8, ge=0.05, le=0.95)
    cost: float | None = Field(None, ge=0.0, le=0.6)
    slope: float | None = Field(None, ge=0.0, le=0.3)


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured lane: its position, its own c, and its name."""

    alpha: float
    gamma: int
    speedup: float
    cost: float
    name: str
    example: bool


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """α, c and v."""
    words = at.words
    cost, slope = (
        home if own is None else own for home, own in zip(machine(), (given.cost, given.slope), strict=True)
    )
    picked = [
        scale("alpha", words("length-surface.alpha"), 0.05, 0.95, given.alpha, 0.05, words, ".0%"),
        scale("cost", words("length-surface.cost"), 0.0, 0.6, cost, 0.01, words),
        scale("slope", words("length-surface.slope"), 0.0, 0.3, slope, 0.01, words),
    ]
    return [Columns(picked, (1, 1, 1))]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The surface and the cut."""
    words, (home_cost, home_slope) = at.words, machine()
    alpha, cost, slope = values["alpha"], values["cost"], values["slope"]
    charts = surface(alpha, cost, slope, words), cut(alpha, cost, slope, words)
    return [
        Columns(charts, (3, 2), align="top"),
        Markdown(words("length-surface.home", cost=home_cost, slope=home_slope), "small"),
    ]


def machine() -> tuple[float, float]:
    """c and v as measured of the bundled models; v is the mean slope of T(n) up to the width of γ = 4."""
    found = measured.figures()
    curve = found.curves["usual"]
    width = max(width for width in curve if width <= GAMMA + 1)
    return found.draft_s["usual"] / curve[1], (curve[width] / curve[1] - 1.0) / (width - 1)


def surface(alpha: float, cost: float, slope: float, words: Words) -> Chart:
    """The formula over α and γ, its ridge, and the measured dots coloured by their speedup."""
    lengths = list(range(1, MAX_GAMMA + 1))
    speeds = [[speedup_sloped(rate, gamma, cost, slope) for rate in RATES] for gamma in lengths]
    figure = _field(lengths, speeds, words)
    ridge = [best_length_sloped(rate, cost, slope) for rate in RATES]
    figure.add_scatter(
        x=RATES,
        y=[best or None for best in ridge],
        name=words("length-surface.ridge"),
        mode="lines",
        line={"color": PURPLE, "width": 4, "shape": "hvh"},
        hoverinfo="skip",
    )
    best = best_length_sloped(alpha, cost, slope)
    every = dots(tuple(_lane_names(words)))
    taken = [(dot.alpha, dot.gamma) for dot in every] + [(alpha, best)] + _steps(ridge)
    named = contours.places(RATES, speeds, LEVELS, taken, PIXELS)
    figure.add_scatter(
        x=[at for at, _ in named.values()],
        y=[gamma for _, gamma in named.values()],
        text=[words.number(level, ".1f") for level in named],
        mode="text",
        textfont={"size": 13},
        showlegend=False,
        hoverinfo="skip",
    )
    _add_dots(figure, every, words)
    if best:
        figure.add_scatter(
            x=[alpha],
            y=[best],
            name=words("length-surface.best"),
            mode="markers",
            marker={"symbol": "star", "size": 20, "color": GOLD, "line": {"width": 1.5, "color": PAGE.light}},
            hoverinfo="skip",
        )
    lay_out(
        figure,
        470,
        {"title": words("length-surface.x"), "range": [-0.02, 1.02], "tickformat": ".0%"},
        {"title": words("length-surface.y"), "range": [0.5, MAX_GAMMA + 0.5], "tickvals": [1, 4, 8, 12, 16]},
        legend=below(0.16),
    )
    best_lengths = "; ".join(
        words(
            "length-surface.alt_best",
            alpha=words.number(rate, ".0%"),
            gamma=best_length_sloped(rate, cost, slope),
        )
        for rate in (0.3, 0.5, 0.7, 0.8, 0.9)
    )
    return Chart(
        figure,
        words("length-surface.title"),
        words("length-surface.modelled", source=measured.source(words)),
        words("length-surface.alt", cost=cost, slope=slope, best_lengths=best_lengths),
    )


def _field(lengths: Sequence[int], speeds: Sequence[Sequence[float]], words: Words) -> go.Figure:
    """The speedups as colours, with a line along each level."""
    figure = go.Figure(
        go.Heatmap(
            x=RATES,
            y=lengths,
            z=[[_shade(speed) for speed in row] for row in speeds],
            zmin=-1.0,
            zmax=1.0,
            customdata=speeds,
            colorscale=SLOWER_FASTER,
            showscale=False,
            hovertemplate=words("length-surface.hover") + "<extra></extra>",
        )
    )
    for level in LEVELS:
        if min(map(min, speeds)) < level < max(map(max, speeds)):
            figure.add_contour(
                x=RATES,
                y=lengths,
                z=speeds,
                contours={"start": level, "end": level, "size": 1, "coloring": "none"},
                line={"width": 3 if level == 1.0 else 1, "color": GREY},
                showscale=False,
                showlegend=False,
                hoverinfo="skip",
            )
    return figure


def _add_dots(figure: go.Figure, every: Sequence[Dot], words: Words) -> None:
    """What was measured, each coloured by its speedup."""
    for example in (False, True):
        shown = [dot for dot in every if dot.example == example]
        figure.add_scatter(
            x=[dot.alpha for dot in shown],
            y=[dot.gamma for dot in shown],
            name=words("length-surface.recorded" if example else "length-surface.measured"),
            mode="markers",
            cliponaxis=False,
            marker={
                "symbol": "diamond" if example else "circle",
                "size": 12 if example else 10,
                "color": [_solid(dot.speedup) for dot in shown],
                "line": {"width": 1.5, "color": TEXT.light},
            },
            customdata=[[dot.name, dot.speedup, dot.cost] for dot in shown],
            hovertemplate=words("length-surface.dot") + "<extra></extra>",
        )


def _steps(ridge: Sequence[int]) -> list[tuple[float, float]]:
    """Points along the line of the best lengths, which jumps up between two rates."""
    return [
        (rate, gamma)
        for rate, low, high in zip(RATES[1:], ridge, ridge[1:], strict=False)
        for gamma in range(max(1, low), high + 1)
    ]


def cut(alpha: float, cost: float, slope: float, words: Words) -> Chart:
    """Speedup over γ at one α, the best γ starred."""
    lengths = list(range(MAX_GAMMA + 1))
    speeds = [speedup_sloped(alpha, gamma, cost, slope) for gamma in lengths]
    best = best_length_sloped(alpha, cost, slope)
    figure = go.Figure(
        go.Scatter(
            x=lengths,
            y=speeds,
            mode="lines+markers",
            line={"color": BLUE, "width": 3},
            marker={"size": 8},
            hovertemplate="γ = %{x}: %{y:.2f}×<extra></extra>",
        )
    )
    figure.add_scatter(
        x=[best],
        y=[speeds[best]],
        mode="markers+text",
        text=[words("length-surface.star", gamma=best, speed=speeds[best])],
        textposition="top center" if best < 11 else "top left",
        textfont={"size": 14},
        marker={"symbol": "star", "size": 20, "color": GOLD},
        hoverinfo="skip",
    )
    figure.add_hline(y=1.0, line={"color": GREY, "width": 1.5, "dash": "dot"})
    lay_out(
        figure,
        470,
        {"title": words("length-surface.y"), "tickvals": [0, 4, 8, 12, 16]},
        {"title": words("length-surface.speed"), "range": [0, max(1.6, 1.2 * max(speeds))]},
    )
    said = words("length-surface.star", gamma=best, speed=speeds[best])
    return Chart(
        figure,
        words("length-surface.cut", alpha=words.number(alpha, ".0%")),
        words("length-surface.formula"),
        f"{words('length-surface.cut', alpha=words.number(alpha, '.0%'))} {said}",
    )


def dots(names: tuple[tuple[str, str], ...]) -> tuple[Dot, ...]:
    """All measurements with chains of one length; `names` are those of texts and lanes."""
    return _dots(names, measured.MEASUREMENTS.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _dots(names: tuple[tuple[str, str], ...], _changed: int) -> tuple[Dot, ...]:
    called, found = dict(names), []
    figures = measured.figures()
    for group, cells in figures.cells.items():
        for lane in CHAINS:
            cell = cells.get(lane)
            if cell is None or cell.alpha is None or lane == "early-exit":
                continue
            which = "larger" if lane.endswith("larger") else "usual"
            cost = figures.draft_s[which] / figures.curves[which][1]
            name = f"{called[group]}, {called[lane]}"
            found.append(Dot(cell.alpha, GAMMA, cell.speedup, cost, name, example=False))
    for example in recorded.examples():
        if len(example.files) == 2 and (dot := _example_dot(example.id, example.title)):
            found.append(dot)
    return tuple(found)


def _example_dot(example: str, title: str) -> Dot | None:
    plain, other = trace(example, plain=True), trace(example)
    settings = Settings(**other.header.settings)
    speedup = numbers.measured_speedup(plain.stats, other.stats)
    if speedup is None or numbers.unmodelled(settings) or settings.draft_length > MAX_GAMMA:
        return None
    found = numbers.modelled_speedup(plain.stats, other.stats, settings.draft_length)
    return None if found is None else Dot(found.alpha, found.gamma, speedup, found.cost, title, example=True)


def _lane_names(words: Words) -> Sequence[tuple[str, str]]:
    found = measured.figures()
    texts = [(group, measured.name("text", group, words)) for group in found.cells]
    return [*texts, *((lane, measured.name("lane", lane, words)) for lane in found.lanes)]


def _shade(speed: float) -> float:
    """Position on the colour scale, −1 … 1 (a third as fast … three times as fast), logarithmic."""
    return max(-1.0, min(1.0, log(speed) / log(3.0)))


def _solid(speed: float) -> str:
    """This speedup's colour on the surface, opaque."""
    at = _shade(speed)
    return mixed(BLUE if at >= 0 else ORANGE, 0.22 + 0.78 * abs(at))
