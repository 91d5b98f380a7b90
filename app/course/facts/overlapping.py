"""The gain from drafting during the target's pass, as the lessons use it."""

from __future__ import annotations

from specdec_core.theory import bet_won, overlap_gain

__all__ = ["bet_won", "overlap_gain"]
