"""EAGLE (Li et al. 2024): one layer guesses the target's next hidden states, the target's own matrix turns them into
tokens."""

from __future__ import annotations

from .state_tree import StateTree


class Eagle(StateTree):
    """The first two generations, which differ in their tree: this one's is EAGLE-2's."""

    name = "eagle"
    title = "EAGLE head"
    summary = (
        "One trained layer predicts the target's next hidden states, from which the target's own output matrix guesses "
        "tokens (an extrapolation algorithm for greater language-model efficiency, hence the name); the most promising "
        "branches are checked together as a tree. It is slower when the predicted states drift from the true ones, and "
        "on small targets, whose passes are hardly more expensive than its own."
    )
    needs = ("states", "eagle")
