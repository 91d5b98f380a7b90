"""A draft with another tokenizer guesses only tokens that both vocabularies have (token-level intersection, Timor et
al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import longest
from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, Proposal
from specdec_core.sampling import widen
from specdec_core.tree import TokenTree

from .draft_model import DraftModel
from .foreign_draft import foreign_draft, rows, stream

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.bundle import Models
    from specdec_core.models.tokens.translation import ForeignDraft
    from specdec_core.runtime.reader import Reader


class SharedReader:
    """A foreign draft as a reader of the target's tokens, for chains.

    A committed token that the draft lacks is read as those of its tokens that write the same. Logits come back over
    the target's vocabulary, −∞ for tokens the draft lacks; so q is its distribution restricted to the shared ones.

    Args:
        reader: of the draft.
        foreign: the draft.
        rows: how many of its own tokens it can hold.
    """

    def __init__(self, reader: Reader, foreign: ForeignDraft, rows: int) -> None:
        self.reader, self.foreign, self.rows = reader, foreign, rows
        self.vocabulary, self.device = foreign.vocabulary, reader.device
        self.ids, self.own = (ids.to(self.device) for ids in foreign.ids)
        self._read: list[int] = []  # what the draft has read
        self.ends = [0]  # the draft's rows after so many of the target's tokens

    @property
    def length(self) -> int:
        return len(self.ends) - 1

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read a whole text, in the draft's own split; rewinding into it is not possible."""
        self.reader.rewind(0)
        self._read = self.foreign.read(tokens, self.rows // 2) if tokens else []
        self.reader.prefill(self._read)
        self.ends = [0] + [len(self._read)] * len(tokens)

    def step(self, tokens: Tensor) -> Tensor:
        return widen(self.narrow_step(tokens), self.ids, self.vocabulary)

    def narrow_step(self, tokens: Tensor) -> Tensor:
        """`step` over the tokens `ids` alone: float32 (k,)."""
        unread: list[int] = []
        for token in tokens.tolist():
            unread += self.foreign.spelled(token)
            self.ends.append(len(self._read) + len(unread))
        if (
            not unread
        ):  # special tokens that the draft does not have: it goes on after the last one that it read
            unread = self._read[-1:] or [self.foreign.begin]
            self._read = self._read[:-1]
            self.reader.rewind(len(self._read))
            self.ends[-1] = len(self._read) + 1
        self._read += unread
        return self.reader.step(torch.tensor(unread, device=self.device))[..., self.own]

    def rewind(self, length: int) -> None:
        del self.ends[length + 1 :]
        del self._read[self.ends[-1] :]
        self.reader.rewind(self.ends[-1])

    def fits(self, tokens: Sequence[int], further: int) -> bool:
        """Whether these tokens can be read, and after them `further` shared ones."""
        return (
            self.reader.length + sum(len(self.foreign.spelled(token)) for token in tokens) + further
            <= self.rows
        )


class SharedTokens(DraftModel):
    """A draft model whose q is 0 outside the shared tokens: every rule judges it as it judges any other q."""

    name = "shared-tokens"
    title = "Draft by shared tokens"
    summary = (
        "A small model with another tokenizer drafts γ tokens, but only such as both vocabularies have, so that "
        "sampling stays exact. It is slower when few tokens are shared, or when the models split text differently."
    )
    needs = ("foreign draft",)

    class Options(Proposer.Options):
        """Has none."""

    @classmethod
    def why_not(cls, models: Models, person: bool = True) -> str | None:
        foreign = models.foreign_draft
        if foreign is not None and not foreign.shared:
            return (
                f"'{foreign.model.info.name}' has no token in common with '{models.target.info.name}'. Use the "
                "proposer 'text-draft', which needs none."
            )
        return super().why_not(models, person)

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        self.foreign = foreign_draft(resources)
        assert resources.draft is not None
        held = rows(resources, self.draft_capacity(resources.capacity))
        self.draft = self.reader = SharedReader(resources.draft, self.foreign, held)

    def propose(self, context: Context) -> Proposal:
        further = 2 * longest(context.settings) + 2  # with overlap the next round's chain follows
        if self.drafted_ahead is None:
            if not self.reader.fits(context.tokens[self.reader.length :], further):
                self.reader.prefill(context.tokens[:-1])  # the end of the text anew
            if not self.reader.fits(context.tokens[-1:], further):
                self.read, self.dropped = self.draft.length, 0
                return Proposal(TokenTree())
        proposal = super().propose(context)
        proposal.note |= stream(self.foreign, [self.foreign.shared[token] for token in proposal.tree.tokens])
        return proposal
