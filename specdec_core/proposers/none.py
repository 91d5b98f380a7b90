"""Plain decoding: propose nothing, so each target pass yields exactly one token. The measured baseline."""

from __future__ import annotations

from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .contract import Context, Drafts, Proposal, Proposer
from .elsewhere import Counterpart


class NoProposer(Proposer):
    """Autoregressive decoding as a special case of the same loop (τ = 1)."""

    name = "none"
    title = "Plain decoding"
    summary = (
        "Proposes nothing: the target model writes one token per pass. It is the baseline that every speedup is "
        "measured against."
    )
    priced_words = "One pass over one token per round."

    @classmethod
    def drafts(cls, settings: Settings) -> Drafts:
        return "none"

    @classmethod
    def max_nodes(cls, settings: Settings) -> int:
        return 0

    @classmethod
    def in_transformers(cls, settings: Settings, layers: int | None = None) -> Counterpart | None:
        return Counterpart(rule=None)

    @classmethod
    def in_vllm(cls, settings: Settings, draft: str | None = None) -> Counterpart | None:
        return Counterpart(rule=None)

    def propose(self, context: Context) -> Proposal:
        return Proposal(TokenTree())
