"""Stop drafting after a token, or a level of a tree, the draft was not confident of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.round import Context


class ConfidenceLength(LengthPolicy):
    """Up to γ tokens, and none after a doubtful one (Assisted generation's `assistant_confidence_threshold`).

    The doubtful token itself is proposed: leaving it out because of its value would change its distribution. A tree
    gets no further level once the probabilities of the nodes to continue sum to less than the threshold, the
    heuristic of Dynamic Depth Decoding (Brown et al. 2024), checked on every level.
    """

    name = "confidence"
    title = "While confident"
    summary = (
        "Drafts up to γ tokens and stops after one, or after a level of a tree, to which the draft gave less than a "
        "threshold. "
        "It is slower when the draft is confident and wrong, or unsure and right; on a GPU, reading its confidence "
        "also costs a wait after each of its passes."
    )
    can_stop = True
    sets = ("more", "slots", "deeper")

    class Options(LengthPolicy.Options):
        threshold: float = Field(
            0.4,
            ge=0.0,
            le=1.0,
            description="Stop after a token with a lower probability from the draft; of a tree, when the nodes to "
            "continue have less together.",
        )

    def length(self, context: Context) -> int:
        return context.settings.draft_length

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        return confidence >= float(self.options.threshold)

    def slots(self, context: Context, confidences: Sequence[float], passes: int = 1) -> int:
        doubtful = (at for at, value in enumerate(confidences) if value < float(self.options.threshold))
        return next(doubtful, len(confidences) - 1) + 1

    def deeper(
        self, context: Context, levels: int, values: Sequence[float], front: Sequence[float], room: int
    ) -> bool:
        return sum(front) >= float(self.options.threshold)
