"""What each proposer's drafting costs on the what-if clock: what it drafts with, and how many tokens a pass reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from specdec_core.foundations.errors import SpecdecError
from specdec_core.proposers import PROPOSERS, Proposer
from specdec_core.settings import Settings

DraftsWith = Literal["nothing", "draft", "heads", "first layers"]
"""What a proposer drafts with: nothing, the draft model, trained heads, or the target's first layers."""


def proposer_of(settings: Mapping[str, Any]) -> type[Proposer] | None:
    """The proposer of a record's settings, as its options make it; None if it is not known here."""
    kind = PROPOSERS.get(str(settings.get("proposer", "")))
    try:
        return kind.resolved(kind.read_options(Settings(**settings))) if kind else None
    except SpecdecError:  # options of another version
        return kind


def drafts_with(kind: type[Proposer]) -> DraftsWith:
    """By what it needs."""
    if kind.uses_draft():
        return "draft"
    if "layers" in kind.needs:
        return "first layers"
    return "heads" if set(kind.needs) - {"states", "person"} else "nothing"


def tokens_in_a_pass(kind: type[Proposer], options: Mapping[str, Any]) -> int | None:
    """How many tokens a draft pass reads after a round's first, by a record's options; None: those with children."""
    if kind.name == "medusa":  # all guesses are of one pass over one state
        return 1
    if kind.name == "block":
        return BLOCK
    if (
        "top_k" in kind.Options.model_fields
    ):  # all that are followed, of which some are not sent, or have no child that is
        given = options.get("top_k")
        return given if isinstance(given, int) else int(kind.Options.model_fields["top_k"].default)
    return None


def assumption(kind: type[Proposer] | None) -> str:
    """What the clock assumes of its drafting, as a sentence."""
    return (
        ASSUMPTIONS.get(kind.name, FREE)
        if kind
        else "Each draft pass costs what the profile gives for its draft model."
    )


BLOCK = 7  # rows of a block head's pass, as those that ship have
FREE = "Drafting runs no model and costs nothing here."
DRAFT = "Each draft pass costs what the profile gives for its draft model."
ASSUMPTIONS = {
    "none": "One pass over one token per round.",
    "draft-model": "Each draft pass costs what the profile gives for its draft model, over one token.",
    "parallel-draft": (
        "A round's one draft pass costs what the profile gives for its draft model, over all tokens it "
        "read, masks included."
    ),
    "text-draft": (
        "Each draft pass costs what the profile gives for its draft model, over one token of its own."
    ),
    "shared-tokens": (
        "Each draft pass costs what the profile gives for its draft model, over one shared token."
    ),
    "prompt-lookup": "Searching the text runs no model and costs nothing here.",
    "suffix": "Searching the text and earlier ones runs no model and costs nothing here.",
    "combined": (
        "Rounds that were looked up cost no drafting; in the others a pass of the model costs what the profile gives "
        "for its draft model, or its heads are priced by size."
    ),
    "branching": (
        "A draft pass costs what the profile gives for its draft model, each level as wide as recorded."
    ),
    "medusa": (
        "A pass of the Medusa heads is priced by size: the parameters of all heads, and once their rows "
        "of the output matrix, against those that a target pass over one token reads."
    ),
    "eagle": (
        "A pass of the EAGLE head is priced by size: the parameters that it reads, its own and its rows "
        "of the output matrix, against those that a target pass reads; each level is as wide as in the "
        "record."
    ),
    "eagle3": (
        "A pass of the EAGLE-3 head is priced by size: the parameters that it reads, its own output "
        "matrix among them, against those that a target pass reads; each level is as wide as in the "
        "record."
    ),
    "mtp": (
        "A pass of the modules is priced by size: the parameters of all modules and the output matrix, "
        "against those that a target pass reads; levels that only later modules read are priced too high; "
        "each level is as wide as in the record."
    ),
    "block": (
        "A pass of the block head is priced by size: the parameters that it reads, its own and its rows of the output "
        "matrix, against those that a target pass reads; it reads a block of seven tokens."
    ),
    "early-exit": (
        "A pass of the first layers costs their share of the layers, and the output matrix in full."
    ),
    "lookahead": (
        "The window is part of the target's pass, which is that much wider; the pool costs nothing here."
    ),
    "recycling": "Looking up successors runs no model and costs nothing here.",
    "oracle": "Drafting is off the clock, as in the record: a bound, not a speedup.",
    "you": "Thinking is off the clock, as in the record: a bound, not a speedup.",
}
