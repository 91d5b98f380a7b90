"""MTP modules with the layers of Qwen3-Next and Qwen3.5, by transformers; imported when one is loaded."""

from __future__ import annotations

from typing import Any

from transformers import Qwen3_5TextConfig, Qwen3NextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5DecoderLayer,
    Qwen3_5RMSNorm,
    Qwen3_5TextRotaryEmbedding,
)
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextDecoderLayer,
    Qwen3NextRMSNorm,
    Qwen3NextRotaryEmbedding,
)

from .mtp_joining import Joining


class Gated35(Joining, Qwen3_5DecoderLayer):
    """A module with Qwen3.5's layer, whose attention has a gate, turns a part of each head, and norms by 1 + weight."""

    def __init__(self, config: Qwen3_5TextConfig, states_first: bool = False) -> None:
        super().__init__(config, list(config.layer_types or ()).index("full_attention"))
        self.self_attn.layer_idx = 0
        self.join(config, Qwen3_5RMSNorm, states_first)


class GatedNext(Joining, Qwen3NextDecoderLayer):
    """A module with Qwen3-Next's layer, likewise."""

    def __init__(self, config: Qwen3NextConfig, states_first: bool = False) -> None:
        super().__init__(config, list(config.layer_types or ()).index("full_attention"))
        self.self_attn.layer_idx = 0
        self.join(config, Qwen3NextRMSNorm, states_first)


KINDS: dict[str, tuple[Any, Any]] = {
    "qwen3_5_text": (Gated35, Qwen3_5TextRotaryEmbedding),
    "qwen3_next": (GatedNext, Qwen3NextRotaryEmbedding),
}
"""By the target's type: the module, and what computes its angles."""
