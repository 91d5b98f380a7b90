"""A Llama's layers but for their attention, for whoever decodes many conversations at once in KV blocks of its own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = tuple[Tensor, ...]  # of a layer: norm, q‖k‖v, output, norm, gate‖up, down


class PlainLlama:
    """The weights, joined as far as they read the same rows.

    Args:
        model: a transformers LlamaForCausalLM in float32.
        device: where the weights go.
    """

    def __init__(self, model: Any, device: str = "cpu") -> None:
        config, inner = model.config, model.model
        self.device = torch.device(device)
        self.heads, self.shared = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.width = int(getattr(config, "head_dim", None) or config.hidden_size // self.heads)
        self.epsilon = float(config.rms_norm_eps)

        def here(*weights: Tensor) -> Tensor:
            return torch.cat([weight.detach().float() for weight in weights]).to(self.device)

        self.embedding = here(inner.embed_tokens.weight)
        self.layers: list[Weights] = [
            (
                here(layer.input_layernorm.weight),
                here(*(getattr(layer.self_attn, f"{name}_proj").weight for name in "qkv")),
                here(layer.self_attn.o_proj.weight),
                here(layer.post_attention_layernorm.weight),
                here(layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight),
                here(layer.mlp.down_proj.weight),
            )
            for layer in inner.layers
        ]
        self.norm, self.output = here(inner.norm.weight), here(model.lm_head.weight)
        places = torch.arange(int(config.max_position_embeddings))[None]
        cos, sin = inner.rotary_emb(torch.zeros(1, 1, 1), places)
        self.cos, self.sin = cos[0].to(self.device), sin[0].to(self.device)

    def project(self, rows: Tensor, weights: Weights, places: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values (…, heads, width) of rows (…, d) at those places (…)."""
        joined = F.linear(F.rms_norm(rows, weights[0].shape, weights[0], self.epsilon), weights[1])
        joined = joined.view(*rows.shape[:-1], self.heads + 2 * self.shared, self.width)
        turned, v = joined.split((self.heads + self.shared, self.shared), -2)
        cos, sin = self.cos[places].unsqueeze(-2), self.sin[places].unsqueeze(-2)
        first, second = turned.chunk(2, -1)
        turned = turned * cos + torch.cat((-second, first), -1) * sin
        return (*turned.split((self.heads, self.shared), -2), v)

    def rest(self, rows: Tensor, mixed: Tensor, weights: Weights) -> Tensor:
        """A layer's output from its input and what its heads have mixed, (…, d)."""
        rows = rows + F.linear(mixed, weights[2])
        both = F.linear(F.rms_norm(rows, weights[3].shape, weights[3], self.epsilon), weights[4])
        gate, up = both.chunk(2, -1)
        return rows + F.linear(F.silu(gate) * up, weights[5])

    def states(self, rows: Tensor) -> Tensor:
        """What the output matrix reads, from the last layer's output (…, d)."""
        return F.rms_norm(rows, self.norm.shape, self.norm, self.epsilon)
