"""Blind guesses: the floor of speculative decoding. None of them looks at what the text means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.round import Context, Proposal
from specdec_core.sampling import draw
from specdec_core.tree import TokenTree

from .contract import Proposer

if TYPE_CHECKING:
    from torch import Tensor


class Blind(Proposer):
    """Three uninformed guesses: `uniform`, `unigram` and `repeat-last`.

    `uniform` and `unigram` are drawn, so above temperature 0 they come with their q and speculative sampling is exact.
    q is exactly what the tokens were drawn from: temperature, top-k and top-p are not applied to it. `unigram`
    counts the text so far and spreads the weight of one more token evenly over the vocabulary, so that no token is
    impossible: q(x) = (count(x) + 1/V) / (tokens + 1).
    At temperature 0 there is no q: `uniform` is a point mass at each token drawn, `unigram` always proposes the most
    frequent token (of equal ones the lowest id).
    """

    name = "blind"
    title = "Blind guesses"
    summary = (
        "Guesses without looking: any token at all, one by its frequency so far, or the last one again. "
        "It is slower nearly everywhere and shows what a bad proposer costs: the text stays right, only time "
        "is lost."
    )

    class Options(Proposer.Options):
        guess: Literal["uniform", "unigram", "repeat-last"] = Field(
            "uniform",
            description="What is guessed: 'uniform' any token of the vocabulary, 'unigram' a token by its frequency "
            "in the text so far, 'repeat-last' the last token again.",
        )

    options: Options

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        guess, greedy = self.options.guess, context.warp.greedy
        if length <= 0:
            return Proposal(TokenTree())
        if guess == "repeat-last":
            return Proposal(TokenTree.chain([context.tokens[-1]] * length))
        numbers = context.uniforms(length)
        if guess == "uniform":
            probs = torch.full((context.vocabulary,), 1.0 / context.vocabulary)
            tokens = [int(number * context.vocabulary) for number in numbers]
        else:
            probs = self._unigrams(context)
            tokens = [int(probs.argmax()) if greedy else int(draw(probs, number)) for number in numbers]
        q = None if greedy else probs.to(self.resources.target.device).expand(length, -1)
        return Proposal(TokenTree.chain(tokens), q=q)

    def _unigrams(self, context: Context) -> Tensor:
        """The smoothed frequencies of the text so far: float32 (V,) on the CPU."""
        text = torch.tensor(context.source + context.tokens)
        counts = torch.bincount(text, minlength=context.vocabulary)
        return (counts + 1.0 / context.vocabulary) / (len(text) + 1)
