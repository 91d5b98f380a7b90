"""Many prompts through several lanes: the cases, the runs, the file, and the summary."""

from .lanes import about, complete, label
from .measured import MeasuredCase
from .run import SweepProgress, sweep
from .totals import MIN_TOKENS, frame, summary, wilson

__all__ = [
    "MIN_TOKENS",
    "MeasuredCase",
    "SweepProgress",
    "about",
    "complete",
    "frame",
    "label",
    "summary",
    "sweep",
    "wilson",
]
