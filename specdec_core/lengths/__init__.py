"""The length policies, by name: how far to draft this round. A new one is one file here and one line in `_TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec_core.foundations.registry import chosen, table
from specdec_core.settings import Settings

from .base import LengthPolicy
from .fixed import FixedLength

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

_TABLE = (  # file.class, in the order in which they are offered
    "fixed.FixedLength",
    "confidence.ConfidenceLength",
    "heuristic.Heuristic",
    "cost_aware.CostAware",
    "ladder.Ladder",
    "kill_switch.KillSwitch",
    "bandit.Bandit",
)

LENGTH_POLICIES: dict[str, type[LengthPolicy]] = table(__name__, _TABLE)


def policy_class(settings: Settings) -> type[LengthPolicy]:
    """The policy named by `settings`.

    Raises:
        SettingsError: naming the known policies.
    """
    return chosen(settings.length_policy, "length policy", LENGTH_POLICIES)


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
