"""A draft with another tokenizer writes text, which is split anew into the target's tokens.

transformers calls it universal assisted decoding. It aligns ids of a few tokens around the seam; here the bytes
that each token writes say where the two splits agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import longest
from specdec_core.models.tokens.translation import BEFORE
from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, Proposal
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree

from .draft_model import Chain
from .foreign_draft import foreign_draft, rows, stream

if TYPE_CHECKING:
    from specdec_core.runtime.reader import Reader


class TextDraft(Proposer):
    """The draft writes γ of its own tokens, at every temperature its most likely ones, so that a guess is a point mass
    and every rule for those is exact. Penalties are the target's affair: they count its tokens, not the draft's."""

    name = "text-draft"
    title = "Draft by text"
    summary = (
        "A small model with another tokenizer writes γ tokens of its own, and their text is split anew into the "
        "target's tokens. It is slower when the two models split or write text differently, and always guesses the "
        "draft's most likely text, even at a temperature."
    )
    needs = ("foreign draft",)
    own_tokens = True

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        assert resources.draft is not None, "`Plan.make` checks `needs` before it builds a proposer"
        self.draft: Reader = resources.draft
        self.foreign = foreign_draft(resources)
        self.rows = rows(resources, self.draft_capacity(resources.capacity))
        self.own: list[int] = []  # the text in the draft's tokens, and what it wrote after it
        self.base = 0  # how many of them are the text
        self.seen = 0  # how many of the target's tokens they stand for
        self.before = b""  # the text's last bytes

    def start(self, context: Context) -> None:
        self.draft.rewind(0)
        self.own = self.foreign.read(context.tokens, self.rows // 2)
        self.base, self.seen = len(self.own), len(context.tokens)
        self.before = self.foreign.target.text(context.tokens[-BEFORE:])
        self.draft.prefill(self.own[:-1])

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        self._catch_up(context.tokens)
        if len(self.own) + length > self.rows:  # the draft's window is full: read the end of the text anew
            self.start(context)
        if length <= 0 or len(self.own) + length > self.rows:
            return Proposal(TokenTree())
        chain = self._written(context, length)
        tokens = self._translated(self.own[self.base :])
        most = min(context.limit, context.room, longest(context.settings))
        note = stream(self.foreign, [int(token) for token in chain.tokens])
        return Proposal(TokenTree.chain(tokens[:most]), passes=chain.passes, note=note)

    def _translated(self, written: list[int]) -> list[int]:
        """What the draft wrote in the target's tokens: as the target splits that text, or one for one, where the draft
        itself wrote it otherwise than its tokenizer splits it, and in tokens that both have."""
        foreign, text = self.foreign, self.foreign.own.text(written)
        theirs = [foreign.target.tokens.get(foreign.own.bytes[token]) for token in written]
        known = [token for token in theirs if token is not None]
        if len(known) == len(written) and foreign.own.after(self.before, text) != written:
            return known
        return foreign.target.after(self.before, text)

    def _catch_up(self, tokens: list[int]) -> None:
        """Keep of what the draft wrote its whole tokens that were committed, and add the rest of the new text."""
        new = self.foreign.target.text(tokens[self.seen :])
        kept, agreed = self.base, 0
        for token in self.own[self.base :]:
            data = self.foreign.own.bytes[token]
            if not new.startswith(data, agreed):
                break
            kept, agreed = kept + 1, agreed + len(data)
        self.own[kept:] = self.foreign.own.after(self.before + new[:agreed], new[agreed:])
        self.before = (self.before + new)[-BEFORE:]
        self.base, self.seen = len(self.own), len(tokens)
        self.draft.rewind(min(self.draft.length, kept, len(self.own) - 1))

    def _written(self, context: Context, length: int) -> Chain:
        """Let the draft write up to `length` tokens, and none after the end of the text."""
        alone = replace(context, warp=Warp(), past=None, vocabulary=self.draft.vocabulary)
        unread = torch.tensor(self.own[self.draft.length :], device=self.draft.device)
        chain = Chain(self.draft, unread, alone)
        while len(chain.tokens) < length:
            chain.advance()
            token = int(chain.tokens[-1])
            if token not in self.foreign.own.bytes:  # a special one that the target does not have
                break
            self.own.append(token)
            if token == self.foreign.eos:
                break
        return chain
