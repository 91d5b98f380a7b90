"""How does a head that continues states attend when several of its steps are rehearsed, over all places at once?

The first step reads the target's states. A row of a later one stands for a guess that began after one of those: it sees
the first step's rows up to there, its own rows of the steps since, and itself, as it would in a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

Keys = tuple[Tensor, Tensor]  # keys and values of one step's rows: (b, kv heads, n, width) each


def attended(
    attention: Any,
    rows: Tensor,
    angles: tuple[Tensor, Tensor],
    places: Tensor,
    true: Keys | None,
    own: Sequence[Keys],
) -> tuple[Tensor, Keys]:
    """What a Llama's attention makes of one step's rows (b, n, …) at `places` int64 (n,): (b, n, d), and their keys.

    With the keys of the first step, `true`, the row at place p of step s began at p − s; `own` are those of the steps
    between, whose first n rows are this step's.
    """
    shape = (*rows.shape[:2], -1, attention.head_dim)
    q, k, v = (
        getattr(attention, f"{name}_proj")(rows).view(shape).transpose(1, 2) for name in ("q", "k", "v")
    )
    q, k = apply_rotary_pos_emb(q, k, *angles)
    if true is None:
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    else:
        group, scale = q.shape[1] // k.shape[1], attention.head_dim**-0.5
        before = [tuple(part[:, :, : q.shape[2]] for part in pair) for pair in own]
        (keys, values), *after = (
            tuple(part.repeat_interleave(group, 1) for part in pair) for pair in (true, *before, (k, v))
        )
        begun = places - len(after)
        hidden = torch.arange(keys.shape[2], device=places.device) > begun.unsqueeze(1)
        scores = [(q @ keys.transpose(2, 3)).masked_fill(hidden, -torch.inf)]
        scores += [(q * one).sum(-1, keepdim=True) for one, _ in after]
        weights = (torch.cat(scores, -1) * scale).softmax(-1).split([keys.shape[2], *[1] * len(after)], -1)
        seen = weights[0] @ values
        for weight, (_, value) in zip(weights[1:], after, strict=True):
            seen = seen + weight * value
    mixed: Tensor = attention.o_proj(seen.transpose(1, 2).flatten(2))
    return mixed, (k, v)
