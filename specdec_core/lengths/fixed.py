"""γ tokens in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.round import Context


class FixedLength(LengthPolicy):
    """γ tokens each round."""

    name = "fixed"
    title = "Fixed γ"
    summary = (
        "Drafts γ tokens in every round (a tree its own number), however confident the draft is. It wastes time where "
        "guesses fail early, and stops too soon where more would have been accepted."
    )

    def length(self, context: Context) -> int:
        return context.settings.draft_length
