"""EAGLE-3 (Li et al. 2025): the head reads several layers of the target and is trained to guess tokens, not states."""

from __future__ import annotations

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
    needs = ("states", "eagle3")
