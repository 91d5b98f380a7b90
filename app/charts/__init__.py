"""Pure functions from traces (and a sweep's summary) to plotly figures."""

from .budget import time_budget
from .chart import Chart
from .depth import acceptance_by_depth
from .difference import difference_strip
from .histogram import tokens_per_pass
from .matrix import comparison_matrix
from .surface import speedup_surface
from .timeline import round_timeline
from .tokens import tokens_against_time

__all__ = [
    "Chart",
    "acceptance_by_depth",
    "comparison_matrix",
    "difference_strip",
    "round_timeline",
    "speedup_surface",
    "time_budget",
    "tokens_against_time",
    "tokens_per_pass",
]
