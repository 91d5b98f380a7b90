"""γ tokens in every round, until too few were accepted: then none for good."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pydantic import Field

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


class KillSwitch(LengthPolicy):
    """Drafts γ tokens while a mean of `least` were accepted in the last `window` rounds, and never again after fewer;
    TensorRT-LLM's switch, which counts requests where this counts rounds. It follows from earlier rounds alone."""

    name = "kill-switch"
    title = "Kill switch"
    summary = (
        "Drafts γ tokens until the mean accepted in the last rounds falls below a limit, then decodes plainly to the "
        "end, as TensorRT-LLM does. One hard passage ends speculation for all easy ones after it."
    )

    class Options(LengthPolicy.Options):
        least: float = Field(
            0.6, ge=0.0, le=64.0, description="The lowest mean number of accepted tokens in a round."
        )
        window: int = Field(16, ge=1, le=1_000, description="Over how many rounds the mean is taken.")

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.accepted: deque[int] = deque(maxlen=self.options.window)
        self.off = False

    def length(self, context: Context) -> int:
        return 0 if self.off else context.settings.draft_length

    def observe(self, context: Context, outcome: Outcome) -> None:
        if min(context.length, context.room) > 0:
            self.accepted.append(len(outcome.path))
        full = len(self.accepted) == self.options.window
        self.off |= full and sum(self.accepted) < self.options.least * self.options.window
