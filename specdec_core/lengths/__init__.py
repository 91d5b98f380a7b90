"""How far to draft this round. One class per policy; `LENGTH_POLICIES` lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec_core.errors import SettingsError
from specdec_core.settings import Settings

from .base import LengthPolicy
from .confidence import Confidence
from .cost_aware import CostAware
from .fixed import FixedLength
from .heuristic import Heuristic

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

__all__ = [
    "LENGTH_POLICIES",
    "FixedLength",
    "LengthPolicy",
    "longest",
    "policy_class",
    "read_options",
    "room",
]


LENGTH_POLICIES: dict[str, type[LengthPolicy]] = {
    kind.name: kind for kind in (FixedLength, Confidence, Heuristic, CostAware)
}


def policy_class(settings: Settings) -> type[LengthPolicy]:
    """The policy named by `settings`.

    Raises:
        SettingsError: naming the known policies.
    """
    if settings.length_policy not in LENGTH_POLICIES:
        raise SettingsError(
            f"There is no length policy '{settings.length_policy}'. Choose one of: {', '.join(LENGTH_POLICIES)}."
        )
    return LENGTH_POLICIES[settings.length_policy]


def read_options(settings: Settings) -> Any:
    """The policy's validated options.

    Raises:
        SettingsError: with one sentence.
    """
    return policy_class(settings).read_options(settings)


def room(settings: Settings, models: Models, length: int) -> int:
    """How many nodes the memory budget allows a round after `length` committed tokens; no limit without a budget.

    Counted are the target's KV rows (the text's and the tree's) and the (n + 1) × vocabulary logits of the pass in
    float32, judged twice (as logits and as probabilities).
    """
    if not settings.memory_budget_mb:
        return 10**6
    row = models.target.kv_bytes + 8 * models.target.vocabulary
    return max(0, int((settings.memory_budget_mb * 1e6 - length * models.target.kv_bytes) // row) - 1)


def longest(settings: Settings) -> int:
    """The most levels these settings can request."""
    return policy_class(settings).most(settings)
