"""The fastest way to decode a person's own prompts with a model: searched on some of them, tested on others."""

from .bench import FitProgress
from .run import MAX_MINUTES, Fit, fit

__all__ = ["MAX_MINUTES", "Fit", "FitProgress", "fit"]
