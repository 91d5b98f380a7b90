"""What the two proposers whose draft has another tokenizer share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from specdec_core.proposers.contract import Resources
from specdec_core.round import Note

if TYPE_CHECKING:
    from specdec_core.models.tokens.translation import ForeignDraft


def foreign_draft(resources: Resources) -> ForeignDraft:
    """The draft with another tokenizer."""
    foreign = resources.models.foreign_draft
    assert foreign is not None, "`Plan.make` checks `needs` before it builds a proposer"
    return foreign


def rows(resources: Resources, reserved: int) -> int:
    """How many of its own tokens the draft can hold: what is `reserved` for it, and no more than it can read."""
    return min(reserved, foreign_draft(resources).model.positions)


def stream(foreign: ForeignDraft, tokens: Sequence[int]) -> Note:
    """The draft's own tokens for the record: their ids, their texts in one, and where each text ends."""
    names = foreign.codec.names(tokens)
    return {
        "draft_ids": list(tokens),
        "draft_text": "".join(names),
        "draft_ends": list(accumulate(map(len, names))),
    }
