"""The proposers, by name. A new proposer is one file in a folder here and one line in `_TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_core.foundations.registry import chosen, table
from specdec_core.round import Context, DraftedAhead, Dropped, Outcome, Proposal
from specdec_core.tree import Drafts

from .contract import Proposer, Resources, TreeShape

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

_TABLE = (  # folder.file.class, in the order in which they are offered
    "none.NoProposer",
    "draft.draft_model.DraftModel",
    "draft.parallel_draft.ParallelDraft",
    "draft.text_draft.TextDraft",
    "draft.shared_tokens.SharedTokens",
    "lookup.prompt_lookup.PromptLookup",
    "lookup.suffix.Suffix",
    "combined.Combined",
    "draft.branching.Branching",
    "heads.medusa.Medusa",
    "heads.eagle.Eagle",
    "heads.eagle3.Eagle3",
    "heads.mtp.Mtp",
    "heads.block.WholeBlock",
    "draft.early_exit.EarlyExit",
    "lookup.lookahead.Lookahead",
    "lookup.recycling.Recycling",
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
