"""EAGLE-3 (Li et al. 2025): the head reads several layers of the target and is trained to guess tokens, not states."""

from __future__ import annotations

from specdec_core.settings import Settings

from .elsewhere import Counterpart
from .state_tree import StateTree


class Eagle3(StateTree):
    """The walk and the tree are EAGLE's; what is read and how it was trained are the head's own."""

    name = "eagle3"
    title = "EAGLE-3 head"
    summary = (
        "One trained layer reads the states of several of the target's layers, from low to high, and was trained on "
        "its own guesses several tokens ahead. It is slower on small targets, whose passes are hardly more expensive "
        "than its own, and when the text needs tokens that its smaller vocabulary lacks."
    )
    priced_words = (
        "A pass of the EAGLE-3 head is priced by size: the parameters that it reads, its own output matrix among them, "
        "against those that a target pass reads; each level is as wide as in the record."
    )
    needs = ("states", "eagle3")

    @classmethod
    def in_vllm(cls, settings: Settings, draft: str | None = None) -> Counterpart | None:
        return cls.chain_in_vllm("eagle3", "path/to/eagle3-head", settings)
