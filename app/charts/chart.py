"""What every chart consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
