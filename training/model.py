"""How is the network computed during training? A compact Llama whose weights carry the transformers names.

The parameter names and layouts equal those of `transformers.LlamaForCausalLM`, so exporting is a plain
copy of the state dict (a test compares the logits of both).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.shapes import Shape


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., size], any float dtype; returns the same shape and dtype."""
        h = x.float()
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight * h).to(x.dtype)


def rope_tables(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary angles, float32, each [length, head_dim]."""
    half = torch.arange(0, shape.head_dim, 2, dtype=torch.float32)
    frequencies = shape.rope_theta ** (-half / shape.head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to x [batch, heads, time, head_dim] (halves layout, as in Llama)."""
    left, right = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-right, left), dim=-1) * sin).to(x.dtype)


def causal_attention(q: Tensor, k: Tensor, v: Tensor, chunk: int = 128) -> Tensor:
    """Causal grouped-query attention, one block of queries at a time.

    q: [batch, heads, time, head_dim]; k, v: [batch, kv_heads, time, head_dim]; returns the shape of q.
    Each block sees only the keys up to its end, and the heads of a group share one matrix product: on the
    CPU used here forward and backward take half the time of `scaled_dot_product_attention` (bfloat16).
    """
    batch, heads, time, dim = q.shape
    kv_heads = k.shape[1]
    groups = heads // kv_heads
    q = (q * dim**-0.5).reshape(batch, kv_heads, groups, time, dim)
    above = torch.full((chunk, chunk), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    blocks = []
    for start in range(0, time, chunk):
        end = min(start + chunk, time)
        rows = end - start
        scores = q[:, :, :, start:end].reshape(batch, kv_heads, groups * rows, dim) @ k[:, :, :end].mT
        mask = F.pad(above[:rows, :rows], (start, 0)).repeat(groups, 1)
        weights = torch.softmax(scores + mask, dim=-1).to(v.dtype)
        blocks.append((weights @ v[:, :, :end]).view(batch, kv_heads, groups, rows, dim))
    return torch.cat(blocks, dim=3).reshape(batch, heads, time, dim)


class Attention(nn.Module):
    """Causal grouped-query attention without biases."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor | None = None) -> Tensor:
        """x: [batch, time, hidden]; returns the same shape. `visible`: bool [time, time], by default causal."""
        s = self.shape
        batch, time, _ = x.shape
        q = self.q_proj(x).view(batch, time, s.heads, s.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, time, s.kv_heads, s.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, time, s.kv_heads, s.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if visible is None:
            y = causal_attention(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, visible, enable_gqa=True)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, time, s.heads * s.head_dim))
        return out


class MLP(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, time, hidden]; returns the same shape."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Dropout(nn.Module):
    """Zeroes features while training, the same ones at every position of a row (one mask per row is nearly free)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, time, size]; returns the same shape, scaled so that its expectation stays."""
        if not self.training or self.share == 0:
            return x
        mask = F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.share)
        return x * mask


class Layer(nn.Module):
    """One pre-norm decoder layer; while training, `dropout` is the share of its output that is zeroed."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.input_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.norm_eps)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor | None = None) -> Tensor:
        """x: [batch, time, hidden]; returns the same shape."""
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cos, sin, visible))
        out: Tensor = x + self.dropout(self.mlp(self.post_attention_layernorm(x)))
        return out


class Decoder(nn.Module):
    """Embeddings, layers and the final norm (the `model.` part of the transformers layout)."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.norm_eps)


class SmallLlama(nn.Module):
    """A Llama-layout language model with tied embeddings."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape, seed: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape, dropout)
        cos, sin = rope_tables(shape, shape.max_positions)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._initialise(seed)

    def _initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        residual_scale = (2 * self.shape.layers) ** -0.5
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                continue
            std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std *= residual_scale
            with torch.no_grad():
                weight.normal_(0.0, std, generator=generator)

    def features(self, ids: Tensor, exits: tuple[int, ...] = ()) -> list[Tensor]:
        """Normed hidden states after the last layer, then after each of the layers `exits` (counted from 1).

        ids: int64 [batch, time]. The first tensor is [batch, time, hidden]; the exits split the positions among
        them (exit i of n has every n-th, from the i-th on), so any number of them costs as much as one.
        """
        time = ids.shape[1]
        x = self.model.embed_tokens(ids)
        if torch.is_autocast_enabled(ids.device.type):
            # A bfloat16 residual stream halves the memory traffic; the norms still compute in float32.
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        cos, sin = self.cos[:time].to(x.dtype), self.sin[:time].to(x.dtype)
        early = []
        for number, layer in enumerate(self.model.layers, start=1):
            x = layer(x, cos, sin)
            if number in exits:
                place = exits.index(number)
                early.append(self.model.norm(x[:, place :: len(exits)]))
        return [self.model.norm(x), *early]

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 [batch, time]; returns logits [batch, time, vocab]."""
        return F.linear(self.features(ids)[0], self.model.embed_tokens.weight)

    def packed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Logits [batch, time, vocab] where token j has position `positions[j]` and sees what `visible[j]` says."""
        x = self.model.embed_tokens(ids)
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        cos, sin = self.cos[positions].to(x.dtype), self.sin[positions].to(x.dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin, visible)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def exits(self, ids: Tensor, layers: tuple[int, ...]) -> list[Tensor]:
        """Logits [.., vocab] of the whole model, then of each early exit at its share of the positions (`features`).

        All go through one output matrix.
        """
        return [F.linear(states, self.model.embed_tokens.weight) for states in self.features(ids, layers)]
