"""How far to draft this round. One class per policy; `LENGTH_POLICIES` lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from specdec_core.errors import SettingsError
from specdec_core.lengths.base import LengthPolicy
from specdec_core.lengths.cost_aware import CostAware
from specdec_core.options import read
from specdec_core.settings import MAX_DRAFT_LENGTH, Settings

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.proposers.contract import Context, Outcome, Resources

__all__ = [
    "LENGTH_POLICIES",
    "FixedLength",
    "LengthPolicy",
    "longest",
    "policy_class",
    "read_options",
    "room",
]


class FixedLength(LengthPolicy):
    """γ tokens each round."""

    name = "fixed"
    title = "Fixed γ"
    summary = (
        "Drafts γ tokens in every round, however sure the draft is. It wastes drafting where guesses die early, and "
        "stops too soon where they would have gone on."
    )

    def length(self, context: Context) -> int:
        return context.settings.draft_length


class Confidence(LengthPolicy):
    """Up to γ tokens, and none behind a doubtful one (Assisted generation's `assistant_confidence_threshold`).

    The doubtful token itself is proposed: leaving it out because of what it is would change its law.
    """

    name = "confidence"
    title = "While confident"
    summary = (
        "Drafts up to γ tokens and stops behind one to which the draft gave less than a threshold. "
        "It loses where the draft is sure and wrong, or unsure and right, and each check waits for the device."
    )
    asks = True
    steers = ("more",)

    class Options(LengthPolicy.Options):
        threshold: float = Field(
            0.4,
            ge=0.0,
            le=1.0,
            description="Stop behind a token to which the draft gave a lower probability.",
        )

    def length(self, context: Context) -> int:
        return context.settings.draft_length

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        return confidence >= float(self.options.threshold)


class Heuristic(LengthPolicy):
    """γ + 2 after a draft that was accepted as a whole, γ − 1 after any other (transformers' schedule of that name).

    A proposer that finds fewer tokens than it was asked for, such as prompt lookup, has not filled its draft, and that
    counts like a rejection.
    """

    name = "heuristic"
    title = "Grow and shrink"
    summary = (
        "Starts with γ, drafts two tokens more after a fully accepted draft and one fewer after any other. "
        "It learns from whole rounds only, so it is late wherever easy and hard passages alternate."
    )

    class Options(LengthPolicy.Options):
        most: int = Field(
            MAX_DRAFT_LENGTH,
            ge=1,
            le=MAX_DRAFT_LENGTH,
            description="γ never grows beyond this; it starts no higher.",
        )

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.current: int | None = None

    @classmethod
    def most(cls, settings: Settings) -> int:
        return int(read_options(settings).most)

    def length(self, context: Context) -> int:
        if self.current is None:
            self.current = min(context.settings.draft_length, self.options.most)
        return self.current

    def observe(self, context: Context, outcome: Outcome) -> None:
        asked = min(context.length, context.room)
        if self.current is None or asked <= 0:
            return
        if len(outcome.path) >= asked:
            self.current = min(self.current + 2, self.options.most)
        else:
            self.current = max(1, self.current - 1)


LENGTH_POLICIES: dict[str, type[LengthPolicy]] = {
    kind.name: kind for kind in (FixedLength, Confidence, Heuristic, CostAware)
}


def policy_class(settings: Settings) -> type[LengthPolicy]:
    """The policy that `settings` name.

    Raises:
        SettingsError: naming the known policies.
    """
    if settings.length_policy not in LENGTH_POLICIES:
        raise SettingsError(
            f"There is no length policy '{settings.length_policy}'; known are: {', '.join(LENGTH_POLICIES)}."
        )
    return LENGTH_POLICIES[settings.length_policy]


def read_options(settings: Settings) -> Any:
    """The policy's validated options.

    Raises:
        SettingsError: with one sentence.
    """
    kind = policy_class(settings)
    return read(f"the length policy '{kind.name}'", kind.Options, settings.length_options)


def room(settings: Settings, models: Models, length: int) -> int:
    """How many nodes the memory budget leaves to a round behind `length` committed tokens; all of them without one.

    Counted are the target's KV rows (the text's and the tree's) and the (n + 1) × vocabulary logits of the pass in
    float32, judged twice (as logits and as probabilities).
    """
    if not settings.memory_budget_mb:
        return 10**6
    row = models.target.kv_bytes + 8 * models.target.vocabulary
    return max(0, int((settings.memory_budget_mb * 1e6 - length * models.target.kv_bytes) // row) - 1)


def longest(settings: Settings) -> int:
    """The most levels that can be asked for with these settings."""
    return policy_class(settings).most(settings)
