"""What sizes do the models have? One dataclass, a preset each, and the Llama config they export to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

VOCAB_SIZE = 4096
EOS_ID = 0
EOS_TOKEN = "<|endoftext|>"
MAX_POSITIONS = 1024


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama-layout decoder (counts of layers, heads and features; no units beyond that)."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int = VOCAB_SIZE
    max_positions: int = MAX_POSITIONS
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5

    def parameter_count(self) -> int:
        """Number of weights, embeddings counted once (they are tied)."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        per_layer = attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        return self.layers * per_layer + self.vocab * self.hidden + self.hidden

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the checkpoint's JSON."""
        return asdict(self)


# Deep and thin versus shallow: at one token per call a forward costs roughly its number of layers, so
# 2 layers against 12 gives the draft a clear latency advantage even where both fit in the cache.
TARGET = Shape(layers=12, hidden=224, heads=4, kv_heads=2, head_dim=64, ffn=608)
# The larger draft has a fifth of the target's weights and a third of its layers: it guesses better and takes longer.
DRAFT = Shape(layers=2, hidden=128, heads=4, kv_heads=2, head_dim=32, ffn=352)
DRAFT_LARGE = Shape(layers=4, hidden=160, heads=4, kv_heads=2, head_dim=32, ffn=416)
SHAPES: dict[str, Shape] = {"target": TARGET, "draft": DRAFT, "draft-large": DRAFT_LARGE}


def shape_named(name: str) -> Shape:
    """The preset called `name`; a clear error for an unknown name."""
    if name not in SHAPES:
        raise ValueError(f"Unknown model {name!r}: expected one of {', '.join(SHAPES)}.")
    return SHAPES[name]
