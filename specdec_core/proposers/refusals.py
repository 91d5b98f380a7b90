"""Why loaded models cannot serve a proposer that needs a draft, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models


def no_draft(proposer: str, models: Models) -> str | None:
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


def no_foreign_draft(proposer: str, models: Models) -> str | None:
    """Why a proposer that needs a draft with another tokenizer has none; None if there is one."""
    if models.foreign_draft is not None:
        return None
    return (
        f"The proposer '{proposer}' needs a draft with another tokenizer and none is loaded with "
        f"'{models.target.info.name}'. Load one (foreign_draft=… or --foreign-draft)."
    )
