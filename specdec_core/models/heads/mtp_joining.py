"""What an MTP module has beside its decoder layer: norms, and the matrix that joins a state and an embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig


class Joining(nn.Module):
    """The parts of a module beside its layer; the keys of its state dict are the published ones after
    `model.layers.61.`."""

    enorm: Any
    hnorm: Any
    eh_proj: nn.Linear

    def join(self, config: PreTrainedConfig, norm: Callable[..., nn.Module], states_first: bool) -> None:
        """Make the norms, of the class `norm`, and the joining matrix."""
        width, eps = int(config.hidden_size), config.rms_norm_eps
        self.states_first = states_first
        self.enorm, self.hnorm = norm(width, eps=eps), norm(width, eps=eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.shared_head = nn.ModuleDict({"norm": norm(width, eps=eps)})

    def reads(self, embedded: Tensor, states: Tensor) -> Tensor:
        """The layer's input: embeddings and states (…, d) → (…, d)."""
        both = self.enorm(embedded), self.hnorm(states)
        joined: Tensor = self.eh_proj(torch.cat(both[::-1] if self.states_first else both, -1))
        return joined
