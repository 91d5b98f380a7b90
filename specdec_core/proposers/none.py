"""Plain decoding: propose nothing, so each target pass yields exactly one token. The measured baseline."""

from __future__ import annotations

from typing import Any

from specdec_core.round import Context, Proposal
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .contract import Proposer, TreeShape


class NoProposer(Proposer):
    """Autoregressive decoding as a special case of the same loop (τ = 1)."""

    name = "none"
    title = "Plain decoding"
    summary = (
        "Proposes nothing: the target model writes one token per pass. It is the baseline that every speedup is "
        "measured against."
    )

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("none", 0)

    def propose(self, context: Context) -> Proposal:
        return Proposal(TokenTree())
