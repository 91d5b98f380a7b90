"""What do losses read of a target? Its states, those between its layers, its logits, and two matrices heads share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdec_core.runtime.layers import decoder_layers, hear


def cross_entropy(
    guess: Tensor, said: Tensor, temperature: float = 1.0, tokens: Tensor | None = None
) -> Tensor:
    """Of a guess with the target's distribution as its label, in nats per token, both at `temperature`.

    Below 1 the likely tokens count more; the loss still ends where the logits agree.

    Args:
        guess, said: logits (b, n, k) of the head and (b, n, V) of the target.
        tokens: the target's tokens that the head may guess, int64 (k,); None is all of them.
    """
    label = (said.float() / temperature).softmax(-1).flatten(0, 1)
    label = label if tokens is None else label[:, tokens]
    return F.cross_entropy(guess.float().flatten(0, 1) / temperature, label)


@dataclass(frozen=True)
class Frozen:
    """The target: its states and logits, and the two matrices that heads may share."""

    model: PreTrainedModel
    name: str
    bfloat16: bool = True

    @property
    def output(self) -> nn.Linear:
        """From states to logits."""
        return cast(nn.Linear, self.model.get_output_embeddings())

    @property
    def embedding(self) -> nn.Embedding:
        """From tokens to the width of the first layer."""
        return cast(nn.Embedding, self.model.get_input_embeddings())

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return str(self.model.device.type)

    @torch.no_grad()
    def read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """States (b, t, d), what the output matrix reads, and logits (b, t, V): ids int64 (b, t)."""
        seen: list[Tensor] = []
        hook = self.output.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        try:
            logits: Tensor = self.model(ids, use_cache=False).logits
        finally:
            hook.remove()
        return seen[0], logits

    @torch.no_grad()
    def read_layers(self, ids: Tensor, layers: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """What these layers read, joined (b, t, len(layers) · d), and `read`'s states and logits: ids int64 (b, t)."""
        with self._inputs(layers) as seen:
            states, logits = self.read(ids)
        return torch.cat([seen[layer] for layer in layers], -1), states, logits

    @torch.no_grad()
    def read_inputs(self, ids: Tensor, layers: tuple[int, ...]) -> Tensor:
        """What these layers read, joined (b, t, len(layers) · d), without the product that makes logits."""
        with self._inputs(layers) as seen:
            self.model.base_model(ids, use_cache=False)
        return torch.cat([seen[layer] for layer in layers], -1)

    @contextmanager
    def _inputs(self, layers: tuple[int, ...]) -> Iterator[dict[int, Tensor]]:
        seen: dict[int, Tensor] = {}
        found = decoder_layers(self.model)

        with ExitStack() as hooks:
            for layer in set(layers):
                hooks.callback(hear(found, layer, partial(seen.__setitem__, layer)).remove)
            yield seen

    def autocast(self) -> torch.autocast:
        """bfloat16 matrix products if requested."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16)
