"""Many prompts through several lanes: the cases, the runs, the file, and the summary."""

from .lanes import about, complete, label
from .measured import Measured
from .run import Progress, sweep
from .totals import LEAST_TOKENS, frame, summary, wilson

__all__ = [
    "LEAST_TOKENS",
    "Measured",
    "Progress",
    "about",
    "complete",
    "frame",
    "label",
    "summary",
    "sweep",
    "wilson",
]
