"""A picture's chart on the page; in a presentation its text and marks scale with the page's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from app.charts import draw as on_page
from app.charts.chart import Chart
from app.course.files.words import Words
from app.ui import presenter

FONTS = frozenset({"font", "textfont", "tickfont", "labelfont"})
LARGER = presenter.LARGE_REM / 16
MARKS = 1.3
ROOM = 60  # pixels


def draw(chart: Chart, key: str, words: Words) -> None:
    """Draw `chart`, its numbers as the language writes them; `key` must be unique on the page."""
    chart = localised(chart, words)
    if presenter.presenting():
        chart = replace(chart, figure=enlarged(chart.figure))
    on_page.draw(chart, key)


def localised(chart: Chart, words: Words) -> Chart:
    """The chart with its numbers as the language writes them."""
    number = words.number
    figure = go.Figure(chart.figure).update_layout(separators=number.decimal + number.thousands)
    return replace(chart, figure=figure)


def enlarged(figure: go.Figure) -> go.Figure:
    """A copy of the figure with all explicitly sized text and all marks enlarged."""
    content = figure.to_dict()
    layout = content.get("layout", {})
    layout.pop("template", None)
    legend = layout.get("legend", {})
    # below the plot: the axis's title needs more room above it, and the plot its height
    if legend.get("y", 0) < 0:
        legend["y"] *= LARGER
        layout["height"] = layout.get("height", 450) + ROOM
    return go.Figure(_grown(content, None))


def _grown(part: Any, name: str | None) -> Any:
    if isinstance(part, dict):
        return {
            key: _size(value, name) if key == "size" else _grown(value, key) for key, value in part.items()
        }
    if isinstance(part, list | tuple):
        return [_grown(each, name) for each in part] if any(isinstance(each, dict) for each in part) else part
    return part


def _size(value: Any, of: str | None) -> Any:
    factor = LARGER if of in FONTS else MARKS if of == "marker" else 1.0
    if isinstance(value, int | float):
        return value * factor
    return [each * factor for each in value] if isinstance(value, list | tuple) else value
