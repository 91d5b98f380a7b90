"""EAGLE (Li et al. 2024): one layer guesses the target's next hidden states, the target's own matrix turns them into
tokens."""

from __future__ import annotations

from specdec_core.settings import Settings

from .elsewhere import Counterpart
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
    priced_words = (
        "A pass of the EAGLE head is priced by size: the parameters that it reads, its own and its rows of the output "
        "matrix, against those that a target pass reads; each level is as wide as in the record."
    )
    needs = ("states", "eagle")

    @classmethod
    def in_vllm(cls, settings: Settings, draft: str | None = None) -> Counterpart | None:
        found = cls.chain_in_vllm("eagle", "path/to/eagle-head", settings)
        found.missing.append(
            "An EAGLE head as it ships here: vLLM 0.32 wants architectures in its config, drops fc.bias (with the key "
            "bias its guesses are noise) and has no place for norms or a smaller vocabulary. Train one without these."
        )
        return found
