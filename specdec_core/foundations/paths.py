"""Where things lie, and which version this is: the one place that knows a clone from an installed package."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"


def root() -> Path:
    """The folder with `app`, `assets` and `training`: the repository, or `specdec_lab` beside the installed core."""
    beside = Path(__file__).resolve().parents[2]
    return beside / "specdec_lab" if (beside / "specdec_lab").is_dir() else beside


def assets() -> Path:
    """The folder of what ships with the lab: models, traces, prompts, profiles, lessons."""
    return root() / "assets"
