"""The gain from drafting during the target's pass, as the lessons use it."""

from __future__ import annotations

from specdec_measure.theory import correct_guess_rate, overlap_gain

__all__ = ["correct_guess_rate", "overlap_gain"]
