"""Multi-token prediction (DeepSeek-V3, 2024): a chain of modules, each guessing one token further than the last."""

from __future__ import annotations

from pydantic import Field

from .state_tree import StateTree


class Mtp(StateTree):
    """Module k reads the states of module k − 1 and the token k places on; beyond the last, its own states."""

    name = "mtp"
    title = "MTP modules"
    summary = (
        "Modules in a chain, each one layer that reads the state of the module before it and one more token, guess the "
        "next few tokens, and the most promising branches are checked together as a tree. They are slower when the "
        "later ones guess badly, since every token of the text passes through all of them."
    )
    needs = ("states", "mtp")

    class Options(StateTree.Options):
        depth: int = Field(
            3,
            title="Levels",
            ge=1,
            le=16,
            description="Levels of the tree; beyond the last module its own states are read again.",
        )
