"""What every chart consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, a title that says what to look at, the source of its numbers (empty only where the chart below has the
    same), and its text for screen readers."""

    figure: go.Figure
    title: str
    provenance: str
    alt: str


ABOVE: dict[str, Any] = {"y": 1.02, "yanchor": "bottom"}
AT_BOTTOM: dict[str, Any] = {"y": 0, "yref": "container", "yanchor": "bottom"}


def below(share: float) -> dict[str, Any]:
    """A legend below the plot, by this share of its height."""
    return {"y": -share, "yanchor": "top"}


def lay_out(
    figure: go.Figure,
    height: int,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    *,
    legend: Mapping[str, Any] | None = None,
    margin: Mapping[str, int] | None = None,
    **more: Any,
) -> None:
    """What all charts have in common, then this one's axes, its legend (None: without) and margins in pixels."""
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8, **(margin or {})},
        showlegend=None if legend else False,
        legend={"orientation": "h", "x": 0, "title": "", **legend} if legend else None,
        xaxis={"zeroline": False, **x},
        yaxis={"zeroline": False, **y},
        **{"hovermode": "closest", "dragmode": False, **more},
    )
