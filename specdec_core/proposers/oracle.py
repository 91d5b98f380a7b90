"""The oracle: the target itself guesses, off the clock. An upper bound for proposers of chains."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.round import Context, Outcome, Proposal
from specdec_core.sampling import draw, first_best
from specdec_core.tree import TokenTree

from .contract import Proposer, Resources

if TYPE_CHECKING:
    from torch import Tensor


class Oracle(Proposer):
    """Runs the target γ steps ahead on a separate KV cache, off the clock.

    The passes are real, but their time is subtracted from the lane's clock and they do not count as draft passes;
    the note's `unpaid_passes` says how many there were. At temperature 0 it proposes exactly what the target will
    write.
    """

    name = "oracle"
    title = "Oracle"
    summary = (
        "Proposes what the target itself would write; its time is not counted. It shows about the most that a draft "
        "of γ tokens can gain and saves no time, because it runs the target first. Above temperature 0 its "
        "guesses are rejected too where it takes the most likely token and another is drawn, or where the rule ignores "
        "its probabilities."
    )
    off_the_clock = True
    uses = ("length", "more")

    class Options(Proposer.Options):
        guess: Literal["drawn", "most-likely"] = Field(
            "drawn",
            description="Above temperature 0: 'drawn' draws from the target's distribution, which speculative sampling "
            "never rejects; 'most-likely' proposes the most likely tokens, which fail when another token is drawn.",
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        self.reader = resources.models.target.reader(resources.capacity)

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        if length <= 0:
            return Proposal(TokenTree())
        began = time.perf_counter()
        proposal = self._roll(context, length)
        proposal.waited = time.perf_counter() - began
        return proposal

    def _roll(self, context: Context, length: int) -> Proposal:
        """The target's next `length` tokens; reads what was committed since the last round first."""
        reader, warp, past = self.reader, context.warp, context.past
        if not reader.length:  # here, not in `start`, as prefill is timed too
            reader.prefill(context.tokens[:-1])
        drawn = self.options.guess == "drawn" and not warp.greedy
        numbers = context.uniforms(length) if drawn else []
        unread = torch.tensor(context.tokens[reader.length :], device=reader.device)
        logits: list[Tensor] = []
        penalised: list[Tensor] = []
        drawn_q: list[Tensor] = []
        tokens: list[Tensor] = []
        path: list[int] = []  # the same, where a penalty needs them
        for step in range(length):
            logits.append(reader.step(unread))
            scores = logits[-1] if past is None else past.next(logits[-1], path)
            penalised.append(scores)
            if drawn:
                drawn_q.append(warp(scores))
                tokens.append(draw(drawn_q[-1], numbers[step]))
            else:
                tokens.append(first_best(scores))
            if past is not None:
                path.append(int(tokens[-1]))
            unread = tokens[-1].reshape(1)
            if context.policy.can_stop and step + 1 < length:
                confidence = float(scores.softmax(-1)[tokens[-1]])
                if not context.policy.more(context, step + 1, confidence):
                    break
        return Proposal(
            TokenTree.chain(torch.stack(tokens).tolist()),
            q=torch.stack(drawn_q) if drawn else None,
            logits=torch.stack(logits),
            penalised=None if past is None else torch.stack(penalised),
            note={"unpaid_passes": len(tokens)},
        )

    def observe(self, context: Context, outcome: Outcome) -> None:
        before = len(context.tokens) - len(outcome.tokens)
        self.reader.rewind(min(self.reader.length, before + len(outcome.path)))
