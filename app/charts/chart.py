"""What every chart comes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, the title that says what to look at, where its numbers come from, and its text for screen readers."""

    figure: go.Figure
    title: str
    provenance: str
    alt: str
