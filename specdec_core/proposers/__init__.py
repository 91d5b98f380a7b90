"""The proposers, by name. A new proposer is one file here and one line in `_TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_core.foundations.registry import chosen, table
from specdec_core.round import Context, DraftedAhead, Dropped, Outcome, Proposal
from specdec_core.tree import Drafts

from .contract import Proposer, Resources, TreeShape

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

_TABLE = (  # file.class, in the order in which they are offered
    "none.NoProposer",
    "draft_model.DraftModel",
    "parallel_draft.ParallelDraft",
    "text_draft.TextDraft",
    "shared_tokens.SharedTokens",
    "prompt_lookup.PromptLookup",
    "suffix.Suffix",
    "branching.Branching",
    "medusa.Medusa",
    "eagle.Eagle",
    "eagle3.Eagle3",
    "mtp.Mtp",
    "block.WholeBlock",
    "early_exit.EarlyExit",
    "lookahead.Lookahead",
    "recycling.Recycling",
    "blind.Blind",
    "oracle.Oracle",
    "you.You",
)

PROPOSERS: dict[str, type[Proposer]] = table(__name__, _TABLE)


def proposer_class(name: str) -> type[Proposer]:
    """The proposer of that name.

    Raises:
        SettingsError: naming the known proposers.
    """
    return chosen(name, "proposer", PROPOSERS)


def available(models: Models) -> dict[str, str | None]:
    """For each proposer None if it can run with these models, else the reason."""
    return {name: kind.why_not(models) for name, kind in PROPOSERS.items()}


__all__ = [
    "PROPOSERS",
    "Context",
    "DraftedAhead",
    "Drafts",
    "Dropped",
    "Outcome",
    "Proposal",
    "Proposer",
    "Resources",
    "TreeShape",
    "available",
    "proposer_class",
]
