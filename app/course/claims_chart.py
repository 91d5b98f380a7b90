"""The chart of a claim: bars or lines from what its file had computed, named by the items of its demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import plotly.graph_objects as go

from ..charts.chart import Chart
from ..charts.palette import fill, look
from ..charts.panels import broken
from .claims import Drawn, Figure
from .lesson import Item


def chart(figure: Figure, drawn: Drawn, texts: Mapping[str, Item], provenance: str) -> Chart:
    """The chart, its title what to look at."""
    spoken = [_named(value, texts) for value in drawn.across]
    form = ".0%" if figure.share else ".3g"
    found = go.Figure()
    for at, (key, values) in enumerate(drawn.series.items(), 1):
        hover = f"{escape(texts[key].text)}: %{{y:{form}}}<extra>%{{x}}</extra>"
        if figure.kind == "bars":
            found.add_bar(
                name=escape(texts[key].text),
                x=[broken(name, 18, 3) for name in spoken],
                y=values,
                marker=fill(look(at).colour, look(at).pattern),
                text=[format(value, form) for value in values],
                textposition="outside",
                cliponaxis=False,
                hovertemplate=hover,
            )
        else:
            found.add_scatter(
                name=escape(texts[key].text),
                x=drawn.across,
                y=values,
                mode="lines+markers",
                line={"color": look(at).colour, "dash": look(at).dash, "width": 2},
                marker={"color": look(at).colour, "symbol": look(at).symbol, "size": 9},
                hovertemplate=hover,
            )
    if figure.level is not None and drawn.level is not None:
        found.add_hline(
            y=drawn.level,
            line={"color": look(0).colour, "dash": "dot", "width": 2},
            annotation={
                "text": escape(texts["level"].text),
                "font": {"size": 13},
                "x": 1,
                "xanchor": "right",
                "yanchor": "bottom",
            },
        )
    _lay_out(found, figure, drawn, texts)
    told = " ".join(
        f"{texts[key].text}: "
        + ", ".join(f"{name} {value:{form}}" for name, value in zip(spoken, values, strict=True))
        + "."
        for key, values in drawn.series.items()
    )
    level = f" {texts['level'].text}: {drawn.level:{form}}." if drawn.level is not None else ""
    return Chart(found, texts["title"].text, provenance, f"{texts['title'].text}. {told}{level}")


def _lay_out(found: go.Figure, figure: Figure, drawn: Drawn, texts: Mapping[str, Item]) -> None:
    values = [value for series in drawn.series.values() for value in series]
    values += [] if drawn.level is None else [drawn.level]
    top, bottom = max(values), min(0.0, min(values))
    found.update_layout(
        height=340,
        margin={"l": 8, "r": 8, "t": 16, "b": 8},
        barmode="group",
        bargap=0.35,
        showlegend=len(drawn.series) > 1,
        legend={
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
            "title": "",
            "font": {"size": 13},
        },
        hovermode="closest",
        dragmode=False,
        xaxis={
            "title": escape(texts["across"].text),
            "zeroline": False,
            "automargin": True,
            "tickfont": {"size": 13},
        },
        yaxis={
            "title": escape(texts["up"].text),
            "range": [bottom * 1.08, top * 1.12 or 1.0],
            "zeroline": False,
            "automargin": True,
            "tickfont": {"size": 13},
        },
    )
    if figure.share:
        found.update_yaxes(tickformat=".0%")
    if figure.kind == "bars":
        found.update_xaxes(type="category")
    else:
        found.update_xaxes(tickvals=drawn.across if len(drawn.across) <= 12 else None)


def _named(value: object, texts: Mapping[str, Item]) -> str:
    """What a place on the axis is called."""
    if isinstance(value, str):
        return texts[value].text if value in texts else value
    return f"{value:g}" if isinstance(value, int | float) else str(value)
