"""Why loaded models cannot serve a proposer, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_core.foundations.errors import meant
from specdec_core.models.catalogue import HEADS

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

OTHER_NEEDS = ("draft", "foreign draft", "layers", "states", "person")  # than trained heads


def lacking(proposer: str, need: str, models: Models, person: bool) -> str | None:
    """Why one of a proposer's `needs` is not met; None if it is. `person`: if one can be asked.

    Raises:
        ValueError: if it is nothing that a proposer can need.
    """
    if need == "draft":
        return _no_draft(proposer, models)
    if need == "foreign draft":
        return _no_foreign_draft(proposer, models)
    if need in ("layers", "states"):
        return None if models.causal else _no_inside(proposer, need, models)
    if need == "person":
        alone = f"The proposer '{proposer}' needs a person to type the next words, and there is nobody here."
        return None if person else alone
    if need in models.heads:
        return None
    if need not in HEADS:
        known = [*OTHER_NEEDS, *HEADS]
        raise ValueError(
            f"The proposer '{proposer}' says in its class that it needs '{need}'.{meant(need, known)} "
            f"What a proposer can need: {', '.join(known)}."
        )
    return (
        f"The proposer '{proposer}' needs trained {need} heads and none are loaded with '{models.target.info.name}'. "
        f"Load them ({need}=…), or train some (see training/)."
    )


def _no_draft(proposer: str, models: Models) -> str | None:
    """Why a proposer that needs a draft model has none; None if there is one."""
    if models.draft is not None:
        return None
    if models.foreign_draft is not None:
        return (
            f"The proposer '{proposer}' needs a draft with the target's tokenizer, and "
            f"'{models.foreign_draft.model.info.name}' has another. Choose 'text-draft' or 'shared-tokens'."
        )
    return (
        f"The proposer '{proposer}' needs a draft model and none is loaded with '{models.target.info.name}'. "
        "Load one (draft=… or --draft), or choose a proposer without one, such as 'prompt-lookup'."
    )


def _no_foreign_draft(proposer: str, models: Models) -> str | None:
    """Why a proposer that needs a draft with another tokenizer has none; None if there is one."""
    if models.foreign_draft is not None:
        return None
    return (
        f"The proposer '{proposer}' needs a draft with another tokenizer and none is loaded with "
        f"'{models.target.info.name}'. Load one (foreign_draft=… or --foreign-draft)."
    )


def _no_inside(proposer: str, need: str, models: Models) -> str:
    """Why a proposer that uses parts of the target cannot do so with one that is not a causal language model."""
    does = {"layers": "runs the first layers of the target", "states": "reads the target's hidden states"}[
        need
    ]
    return (
        f"The proposer '{proposer}' {does}, which is possible with causal language models only, and "
        f"'{models.target.info.name}' is not one."
    )
