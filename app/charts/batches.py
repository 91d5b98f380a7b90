"""Speedups measured with several requests in each pass, beside those expected from the passes of a single one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10

import plotly.graph_objects as go

from app.theme import GREY, Look, look
from specdec_measure.machines.batches import Batches

from .chart import Chart, below, lay_out


@dataclass(frozen=True, slots=True)
class Texts:
    """The chart's texts; `lanes` are the names of the proposers that are drawn."""

    title: str
    provenance: str
    said: str
    x: str
    y: str
    measured: str
    expected: str
    interval: str
    lanes: Mapping[str, str]


def together(batches: Batches, texts: Texts, looks: Mapping[str, Look] | None = None) -> Chart:
    """Over the number of requests: measured points with their intervals, and the expected line, for each proposer.

    `looks`: the proposers' styles, if a chart beside this one shows them as well.
    """
    figure = go.Figure()
    sizes = sorted({one.batch for lane in batches.lanes for one in lane.batches})
    tops = [1.0]
    for number, (proposer, name) in enumerate(texts.lanes.items(), 1):
        lane = batches.of(proposer)
        if lane is None:
            continue
        style, found = looks[proposer] if looks else look(number), lane.batches
        x = [one.batch for one in found]
        tops += [max(one.high, one.expected) for one in found]
        figure.add_scatter(
            name=f"{name}, {texts.measured}",
            x=x,
            y=[one.speedup for one in found],
            mode="lines+markers",
            line={"color": style.colour, "width": 3},
            marker={"color": style.colour, "symbol": style.symbol, "size": 10},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [one.high - one.speedup for one in found],
                "arrayminus": [one.speedup - one.low for one in found],
                "thickness": 1.5,
                "width": 5,
            },
            customdata=[[one.low, one.high] for one in found],
            hovertemplate=f"%{{x}}: %{{y:.2f}}×<br>{texts.interval}: %{{customdata[0]:.2f}} … %{{customdata[1]:.2f}}"
            "<extra>%{fullData.name}</extra>",
        )
        figure.add_scatter(
            name=f"{name}, {texts.expected}",
            x=x,
            y=[one.expected for one in found],
            mode="lines",
            line={"color": style.colour, "width": 2, "dash": "dot"},
            hovertemplate="%{x}: %{y:.2f}×<extra>%{fullData.name}</extra>",
        )
    figure.add_hline(y=1.0, line={"color": GREY, "width": 2, "dash": "dot"})
    lay_out(
        figure,
        440,
        {
            "title": texts.x,
            "type": "log",
            "tickvals": sizes,
            "range": [log10(sizes[0]) - 0.08, log10(sizes[-1]) + 0.08],
        },
        {"title": texts.y, "range": [0, 1.1 * max(tops)], "ticksuffix": "×", "automargin": True},
        legend=below(0.25) | {"font": {"size": 14}},
    )
    return Chart(figure, texts.title, texts.provenance, texts.said)
