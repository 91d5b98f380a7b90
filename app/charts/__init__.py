"""Pure functions from traces to plotly figures."""

from .chart import Chart
from .timeline import round_timeline
from .tokens import tokens_against_time

__all__ = ["Chart", "round_timeline", "tokens_against_time"]
