"""The target drafts for itself: its first layers, then its own final norm and output matrix.

LayerSkip (Elhoushi et al. 2024, sec. 4.3) trains a model for this; without such training an early layer's state says
less about the next token. The exit shares all weights with the target, and also its KV rows: what the target has read,
its first layers have read, and what the exit writes after that is overwritten by the target's pass.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, Proposal
from specdec_core.tree import TokenTree

from .draft_model import Chain


class EarlyExit(Proposer):
    """A chain from the first layers of the target; has no cache or weights of its own."""

    name = "early-exit"
    title = "Early exit"
    summary = (
        "The target drafts for itself with only its first layers, which share its weights and its KV cache. "
        "It is slower when a model was not trained to exit early, because then the first layers guess badly and still "
        "cost their share of a full pass."
    )
    needs = ("layers",)
    uses = ("length", "more")

    class Options(Proposer.Options):
        layer: int = Field(
            0,
            ge=0,
            le=1_000,
            description="After how many of the target's layers the draft exits; 0 takes a third of them.",
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        from specdec_core.runtime.reader import CausalReader

        target = resources.target
        if not isinstance(target, CausalReader):
            raise SettingsError(
                "The proposer 'early-exit' runs the first layers of the target, which has none here."
            )
        self.target = target
        count = len(target.memory.layers)
        self.layer = self.options.layer or max(1, count // 3)
        if self.layer > count:
            raise SettingsError(
                f"Option 'layer' of the proposer 'early-exit' is {self.layer}, but the target has {count} layers; "
                f"choose 1 to {count}, or 0 for a third of them."
            )
        self.exit = target.first_layers(self.layer)

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        if length <= 0:
            return Proposal(TokenTree())
        self.exit.memory.length = self.target.length
        root = torch.tensor(context.tokens[-1:], device=self.exit.device)
        chain = Chain(self.exit, root, context)
        chain.cut(chain.complete(context, length))
        return chain.proposal({"exit_layer": self.layer})
