"""What drafting beside the target's pass brings, as the lessons ask it."""

from __future__ import annotations

from specdec_core.theory import bet_won, overlap_gain

__all__ = ["bet_won", "overlap_gain"]
