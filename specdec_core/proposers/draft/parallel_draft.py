"""A draft model guesses all γ tokens in one pass: after the text it reads γ − 1 mask tokens, and each position guesses
one (PARD, An et al. 2025)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import longest
from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, Outcome, Proposal
from specdec_core.sampling import draw, first_best
from specdec_core.tree import TokenTree

from .draft_model import fit, readable

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.bundle import Models
    from specdec_core.runtime.reader import Reader


class ParallelDraft(Proposer):
    """No guess sees the ones before it: q of a position is fixed before any token is drawn, which is a q like any other
    to the rules. The mask tokens' rows are dropped after the pass."""

    name = "parallel-draft"
    title = "Parallel draft"
    summary = (
        "A draft model trained with mask tokens guesses all γ tokens in one pass, none of which sees the others. It is "
        "slower when the later guesses, made without the earlier ones, are wrong too often."
    )
    needs = ("draft",)
    uses = ("length", "slots")

    @classmethod
    def why_not(cls, models: Models, person: bool = True) -> str | None:
        models = models.drafting("parallel")
        reason = super().why_not(models, person)
        if reason is None and models.draft is not None and models.draft.mask is None:
            return (
                f"The proposer '{cls.name}' needs a draft trained with mask tokens, and '{models.draft.info.name}' has "
                "none. Train one (python -m training draft --parallel 4) and load it (parallel_draft=…), or use "
                "'draft-model'."
            )
        return reason

    @classmethod
    def which_draft(cls, options: Any) -> str:
        return "parallel"

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        assert resources.draft is not None and resources.models.draft is not None, (
            "`Plan.make` checks `needs`"
        )
        self.draft: Reader = resources.draft
        mask = resources.models.draft.mask
        assert mask is not None, "`why_not` refuses a draft without one"
        self.mask = mask

    def start(self, context: Context) -> None:
        self.draft.prefill(readable(context.tokens[:-1], self.draft))

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        if length <= 0:
            return Proposal(TokenTree())
        unread = readable(context.tokens[self.draft.length :], self.draft)
        read = [*unread, *[self.mask] * (length - 1)]
        rows = self.draft.read(read[0], TokenTree.chain(read[1:]))[-length:]
        self.draft.keep(range(len(unread)))
        logits = fit(rows, context.vocabulary)
        if context.policy.can_stop:  # by the marginals alone, before a token is drawn
            confidences: list[float] = logits.softmax(-1).amax(-1).tolist()
            logits = logits[: context.policy.slots(context, confidences)]
        if not len(logits):
            return Proposal(TokenTree(), passes=1)
        tokens, q, scores = self._drawn(context, logits)
        return Proposal(
            TokenTree.chain(tokens),
            torch.stack(q) if q else None,
            logits,
            None if context.past is None else torch.stack(scores),
            passes=1,
            note={"draft_read": len(read), "masks": length - 1},
        )

    def _drawn(self, context: Context, logits: Tensor) -> tuple[list[int], list[Tensor], list[Tensor]]:
        """A token of each position, the distributions they were drawn from, and their logits after penalties."""
        numbers = [] if context.warp.greedy else context.uniforms(longest(context.settings))
        tokens: list[int] = []
        q: list[Tensor] = []
        after: list[Tensor] = []
        for place, row in enumerate(logits):
            scores = row if context.past is None else context.past.next(row, tokens)
            after.append(scores)
            if context.warp.greedy:
                token = first_best(scores)
            else:
                q.append(context.warp(scores))
                token = draw(q[-1], numbers[place])
            tokens.append(int(token))
        return tokens, q, after

    def observe(self, context: Context, outcome: Outcome) -> None:
        """Nothing to drop: the draft has read only committed tokens."""
