"""How does one's own text become training rows? Tokenised whole, cut into rows, the tail held out for measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

HELD_OUT_SHARE = 0.05


class OwnText:
    """Rows of a text in a seeded order, reshuffled each epoch.

    Args:
        ids: int64 (n,), the tokens of the whole text.
        context: tokens per row, not counting the one that is only predicted.
        batch: rows per step.
        seed: of the order.

    Raises:
        ValueError: if the text is too short for a row to train on and one to measure.
    """

    def __init__(self, ids: Tensor, context: int, batch: int, seed: int) -> None:
        count = len(ids) // (context + 1)
        if count < 2:
            raise ValueError(
                f"The text has {len(ids):,} tokens; at least {2 * (context + 1):,} are needed for rows of {context}. "
                "Give more text or a smaller --context."
            )
        rows = ids[: count * (context + 1)].view(count, context + 1)
        kept = max(1, int(count * HELD_OUT_SHARE))
        self.rows, self.heldout = rows[:-kept], rows[-kept:]
        self.batch, self.seed, self.step = batch, seed, 0

    def next(self) -> Tensor:
        """The next batch: int64 [batch, context + 1]."""
        places = np.arange(self.step * self.batch, (self.step + 1) * self.batch)
        self.step += 1
        epochs, within = np.divmod(places, len(self.rows))
        orders = {
            int(epoch): np.random.default_rng([self.seed, int(epoch)]).permutation(len(self.rows))
            for epoch in set(epochs)
        }
        picks = [int(orders[int(epoch)][place]) for epoch, place in zip(epochs, within, strict=True)]
        return self.rows[torch.tensor(picks)]

    def state(self) -> dict[str, Any]:
        """Counters to store in a checkpoint."""
        return {"step": self.step, "rows": len(self.rows)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from stored counters; a clear error where they belong to another text."""
        if state.get("rows") != len(self.rows):
            raise ValueError(
                "The checkpoint was made with another text: start a new run under another --name."
            )
        self.step = int(state["step"])


def read_texts(paths: list[Path]) -> str:
    """The files joined by blank lines; a clear error for one that is not UTF-8 text."""
    parts = []
    for path in paths:
        try:
            parts.append(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text: convert it first.") from None
    return "\n\n".join(parts)
