"""The chart of a claim: bars or lines from its file's computed values, named by the items of its demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import plotly.graph_objects as go

from app.charts.chart import Chart
from app.charts.panels import broken
from app.course.files.lesson import Item
from app.course.files.words import Notation
from app.theme import fill, look

from .claims import Drawn, Figure

NOTHING = 1e-9  # a zero after rounding


def chart(
    figure: Figure, drawn: Drawn, texts: Mapping[str, Item], provenance: str, number: Notation
) -> Chart:
    """The chart, with a title that says what to look at."""
    names = [named(value, figure, texts, number) for value in drawn.across]
    draw = _bars if figure.kind == "bars" else _lines
    sentences = " ".join(
        f"{texts[key].text}: "
        + ", ".join(
            f"{name} {said(value, figure, number)}" for name, value in zip(names, values, strict=True)
        )
        + "."
        for key, values in drawn.series.items()
    )
    if drawn.level is not None:
        sentences += f" {texts['level'].text}: {said(drawn.level, figure, number)}."
    made = draw(figure, drawn, texts, names, number)
    made.update_layout(
        margin={"l": 8, "r": 8, "t": 24, "b": 8},
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
    )
    made.update_xaxes(zeroline=False, automargin=True, tickfont={"size": 13})
    made.update_yaxes(zeroline=False, automargin=True, tickfont={"size": 13})
    return Chart(made, texts["title"].text, provenance, f"{texts['title'].text}. {sentences}")


def said(value: float, figure: Figure, number: Notation) -> str:
    """A formatted value."""
    return "0" if abs(value) < NOTHING else number(value, ".0%" if figure.share else ".3g")


def _bars(
    figure: Figure, drawn: Drawn, texts: Mapping[str, Item], names: list[str], number: Notation
) -> go.Figure:
    """Horizontal bars, the first on top, so that names stay legible on a phone."""
    made = go.Figure()
    for at, (key, values) in enumerate(drawn.series.items(), 1):
        made.add_bar(
            orientation="h",
            name=escape(texts[key].text),
            y=[broken(name, 20, 3) for name in names],
            x=values,
            marker=fill(look(at).colour, look(at).pattern),
            text=[said(value, figure, number) for value in values],
            textposition="outside",
            textangle=0,
            constraintext="none",
            textfont={"size": 13},
            cliponaxis=False,
            hovertemplate=f"%{{y}}<br>{escape(texts[key].text)}: %{{text}}<extra></extra>",
        )
    top = max(max(values) for values in drawn.series.values())
    if figure.level is not None and drawn.level is not None:
        top = max(top, drawn.level)
        made.add_vline(
            x=drawn.level,
            line={"color": look(0).colour, "dash": "dot", "width": 2},
            annotation={"text": escape(texts["level"].text), "font": {"size": 13}, "yanchor": "bottom"},
            annotation_position="top",
        )
    made.update_layout(height=96 + len(names) * (22 + 20 * len(drawn.series)), bargap=0.3, barmode="group")
    made.update_xaxes(title=escape(texts["up"].text), range=[0.0, 1.18 * top or 1.0])
    made.update_yaxes(title=escape(texts["across"].text), type="category", autorange="reversed")
    return made


def _lines(
    figure: Figure, drawn: Drawn, texts: Mapping[str, Item], _: list[str], number: Notation
) -> go.Figure:
    made = go.Figure()
    for at, (key, values) in enumerate(drawn.series.items(), 1):
        made.add_scatter(
            name=escape(texts[key].text),
            x=drawn.across,
            y=values,
            mode="lines+markers",
            line={"color": look(at).colour, "dash": look(at).dash, "width": 2},
            marker={"color": look(at).colour, "symbol": look(at).symbol, "size": 9},
            text=[said(value, figure, number) for value in values],
            hovertemplate=f"{escape(texts[key].text)}: %{{text}}<extra>%{{x}}</extra>",
        )
    every = [value for values in drawn.series.values() for value in values]
    if figure.level is not None and drawn.level is not None:
        every.append(drawn.level)
        left = _clear(drawn, 0) > _clear(drawn, -1)
        made.add_hline(
            y=drawn.level,
            line={"color": look(0).colour, "dash": "dot", "width": 2},
            annotation={
                "text": escape(texts["level"].text),
                "font": {"size": 13},
                "x": 0 if left else 1,
                "xanchor": "left" if left else "right",
                "yanchor": "bottom",
            },
        )
    made.update_layout(height=340)
    ticks = drawn.across if len(drawn.across) <= 12 else None
    made.update_xaxes(
        title=escape(texts["across"].text), tickvals=ticks, tickformat=".0%" if figure.share else ""
    )
    made.update_yaxes(
        title=escape(texts["up"].text),
        range=[1.08 * min(0.0, *every), 1.12 * max(every) or 1.0],
        tickformat=".0%" if figure.share else "",
    )
    return made


def _clear(drawn: Drawn, end: int) -> float:
    """How far the lines are from the level at one end, to find room for its name."""
    assert drawn.level is not None
    return min(abs(values[end] - drawn.level) for values in drawn.series.values())


def named(value: object, figure: Figure, texts: Mapping[str, Item], number: Notation) -> str:
    """The label of a position on the axis."""
    if isinstance(value, str):
        return texts[value].text if value in texts else value
    return number(value, ".0%" if figure.share else "g") if isinstance(value, int | float) else str(value)
