"""Layers that see only part of the text, sliding windows and chunks, over a cache that keeps all of it.

A cache that forgets the rows its window has left cannot undo a rejected draft. Here every row is kept, and what a layer
may see is the tree's mask intersected with its window; distances count along a node's path, not between rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

FULL, SLIDING, CHUNKED = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
)  # as transformers names them


@dataclass(frozen=True, slots=True)
class Windows:
    """The kinds of layers of a model with windows.

    Attributes:
        kinds: the kinds of layers.
        single: whether the model takes one mask for all layers; else one for each kind.
        window: how many tokens a sliding layer sees, the current one included.
        chunk: the length of the chunks a chunked layer's text is cut into.
    """

    kinds: tuple[str, ...]
    single: bool
    window: int
    chunk: int

    @classmethod
    def of(cls, config: Any) -> Self | None:
        """The windows of a model with this configuration; None where all layers see all of the text."""
        window, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
        layers = getattr(config, "layer_types", None)
        if layers is None:  # all layers alike, and one mask
            if not window or not getattr(config, "use_sliding_window", True):
                return None
            return cls((SLIDING,), True, window, 0)
        kinds = tuple(sorted({*layers}))
        return None if kinds == (FULL,) else cls(kinds, False, window or 0, chunk or 0)

    def narrowed(self, mask: Tensor, depths: list[int], blocked: float) -> Tensor:
        """The masks of all kinds, (kinds, 1, n, length + n).

        Args:
            mask: (1, 1, n, length + n), without windows.
            depths: of the pass's n tokens below the root.
            blocked: the value of what may not be seen.
        """
        length = mask.shape[-1] - len(depths)
        own = torch.tensor(depths, device=mask.device) + length
        rows, columns = own[:, None], torch.cat((torch.arange(length, device=mask.device), own))[None]
        beyond = {
            FULL: torch.zeros_like(rows, dtype=torch.bool),
            SLIDING: rows - columns >= self.window,
            CHUNKED: rows // max(1, self.chunk) != columns // max(1, self.chunk),
        }
        return torch.cat([mask.masked_fill(beyond[kind], blocked) for kind in self.kinds])

    def by_kind(self, masks: Tensor) -> Tensor | dict[str, Tensor]:
        """The masks as the model takes them."""
        return masks if self.single else dict(zip(self.kinds, masks.split(1), strict=True))
