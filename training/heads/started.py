"""Where do heads that continue states start from? From the target's own last layer, on an estimate of its input.

The estimate is fitted by least squares on a few rows. A head that starts there needs many times less text. For the
first part of the budget its states are also drawn towards the target's, as EAGLE's are: from a little text a head
learns more of 224 numbers than of one token. In the end only its guesses count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from specdec_core.runtime.layers import decoder_layers
from training.chat.heads import solved
from training.heads.frozen import Frozen

ROWS = 8  # held-out rows a fit reads at once
GUIDED = 0.6  # the share of the budget in which the target's states guide
TOKENS = 0.1  # what guessed tokens count for at its start, as in EAGLE's loss


def last_layer(target: Frozen) -> Any:
    """The target's last decoder layer; None where it is not Llama's, and a head starts from random weights."""
    layers = decoder_layers(target.model)
    known = (
        all(hasattr(layers[-1], part) for part in ("self_attn", "mlp", "input_layernorm"))
        if layers
        else False
    )
    return layers[-1] if known and hasattr(getattr(layers[-1], "mlp", None), "gate_proj") else None


def same_weights(module: nn.Module, other: nn.Module) -> None:
    """Copy the weights of `other` whose names and shapes the module has."""
    own = module.state_dict()
    fitting = {
        name: weight
        for name, weight in other.state_dict().items()
        if name in own and own[name].shape == weight.shape
    }
    module.load_state_dict(fitting, strict=False)


@torch.no_grad()
def last_input(target: Frozen, ids: Tensor) -> tuple[Tensor, Tensor]:
    """What the target's last layer reads, and the states its output matrix reads; (b, t, d) each: ids int64 (b, t)."""
    seen: list[Tensor] = []
    hook = decoder_layers(target.model)[-1].register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0])
    )
    try:
        states, _ = target.read(ids)
    finally:
        hook.remove()
    return seen[0], states


@torch.no_grad()
def fitted(rows: Tensor, pairs: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """The matrix (d, n) from inputs (…, n) to what is wanted (…, d), by ridge regression over rows int64 (r, t)."""
    square: Tensor | None = None
    product: Tensor | None = None
    for ids in rows.split(ROWS):
        inputs, wanted = (part.flatten(0, 1).double() for part in pairs(ids))
        more, found = inputs.T @ inputs, inputs.T @ wanted
        square, product = (
            (more, found) if square is None or product is None else (square + more, product + found)
        )
    assert square is not None and product is not None, "a fit needs rows"
    return solved(square, product)


def guided(decay: Tensor) -> Callable[[float], Tensor]:
    """Weights of so many steps' cross-entropies and of their states' distances, (2 · steps,), by the budget's share."""

    def weights(progress: float) -> Tensor:
        done = min(1.0, progress / GUIDED)
        return torch.cat((decay * (TOKENS + (1 - TOKENS) * done), decay * (1 - done)))

    return weights
