"""The layers of heads in few tensor operations, as `runtime.llama` computes those of models.

A head runs once for each level of its tree, on a few rows: transformers' modules then spend four fifths of the time
starting operations. The head's own forward stays, for training and as what this one is compared with.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RMSNorm

from specdec_core.runtime.architectures.llama import PLAIN, ROPE_TYPES, LlamaLayers, Product, norm_of
from specdec_core.runtime.compiled.layers import CompiledLayers, suits
from specdec_core.runtime.joined import Joined
from specdec_core.runtime.kv import KVMemory

if TYPE_CHECKING:
    from .continuing import Continuing

_log = logging.getLogger(__name__)


class Lean:
    """A head's pass over a few rows, (n, d), after those in its memory.

    Args:
        head: on a CPU; shares its weights with this object, and its norms compute in fewer operations from now on.
    """

    def __init__(self, head: Continuing) -> None:
        passes = head.passes()
        weight = next(head.parameters())
        layers = [layer for one in passes for layer in one]
        normed = [head.normed or place > 0 for one in passes for place in range(len(one))]
        self.layers = LlamaLayers(layers, head.config, head.rotary, weight, normed)
        self.per_pass = head.layers_per_pass
        self.norms = [module for module in head.modules() if type(module) in (LlamaRMSNorm, Qwen3RMSNorm)]
        for module in self.norms:
            module.forward = _flat(norm_of(module))

    def joined(self) -> list[Joined]:
        """The joined products, for packing."""
        return self.layers.joined()

    def compile(self) -> None:
        """Let whole passes run in the compiled kernels, where all products do."""
        if suits(self.layers):
            self.layers.compiled = CompiledLayers(self.layers)

    def undo(self) -> None:
        """Let the norms compute as before."""
        for module in self.norms:
            del module.forward

    def __call__(
        self, rows: Tensor, onto: Tensor, positions: Tensor, mask: Tensor, memory: KVMemory, step: int
    ) -> Tensor:
        """What the layers of module `step` make of `rows` (n, in), which the first adds to `onto` (n, d).

        Args:
            positions: int64 (n,), below the memory's capacity.
            mask: additive, (n, rows in memory + n).
            memory: of as many layers as a pass goes through.
        """
        layers, first = self.layers, step * self.per_pass
        layers.prepare(memory.capacity)
        if layers.compiled is not None:
            return layers.compiled(
                onto, positions, mask, memory, first=first, last=first + self.per_pass, read=rows
            )[0]
        blocks, attention = layers.reading(memory, len(rows), mask)
        angles = layers.angles(positions)
        for layer, block in zip(layers.layers[first : first + self.per_pass], blocks, strict=True):
            onto = layers.through(layer, rows, onto, angles, attention, block)
            rows = onto
        return onto


def _flat(norm: Product) -> Product:
    """A norm of rows (n, d) for any (…, d)."""
    return lambda rows: norm(rows) if rows.dim() == 2 else norm(rows.flatten(0, -2)).view_as(rows)


def lighten(head: Continuing, name: str, embedding: nn.Module) -> list[Joined]:
    """Let a head run on `Lean` where it computes what the head's own forward does; its joined products, for packing.

    Compared on the loaded weights: a few rows of a text, and a tree after them.
    """
    if not _suits(head):
        return []
    expected, lean = _tried(head, embedding), Lean(head)
    head.lean, why_not = lean, "ours differ from them"
    try:
        found = _tried(head, embedding)
        tolerance = 1e-4 if found.dtype == torch.float32 else 0.1
        if float((found - expected).abs().max()) <= tolerance * max(1.0, float(expected.abs().max())):
            return lean.joined()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a configuration that these layers do not know
        why_not = f"ours fail on them ({type(error).__name__})"
    _log.warning("%s run on transformers' layers: %s.", name, why_not)
    lean.undo()
    head.lean = None
    return []


def _suits(head: Continuing) -> bool:
    """Whether the head's layers are Llama's, on a device where this pays."""
    rope: Any = getattr(head.config, "rope_parameters", None) or {}
    return (
        all(weight.device.type == "cpu" for weight in head.parameters())  # on CUDA, launches overlap
        and rope.get("rope_type", "default") in ROPE_TYPES
        and all(
            type(layer.self_attn) in (LlamaAttention, Qwen3Attention)
            and type(layer.mlp) is LlamaMLP
            and _even(layer.self_attn, "q_proj", "k_proj", "v_proj")
            and _even(layer.mlp, "gate_proj", "up_proj")
            for layers in head.passes()
            for layer in layers
        )
        and all(
            type(module) in PLAIN and "forward" not in vars(module)
            for module in head.modules()
            if isinstance(module, nn.Linear | nn.Embedding)
        )
    )


def _even(part: nn.Module, *names: str) -> bool:
    """Whether all of these products have a bias, or none, so that they can be joined."""
    return len({getattr(part, name).bias is None for name in names}) == 1


@torch.inference_mode()
def _tried(head: Continuing, embedding: nn.Module) -> Tensor:
    """The states of two passes with every module."""
    weight = next(head.parameters())
    size, blocked = int(head.config.hidden_size), torch.finfo(weight.dtype).min
    source = torch.Generator().manual_seed(0)
    states = torch.randn(3, size, generator=source).to(weight.device, weight.dtype)
    tokens = torch.tensor([1, 2, 3], device=weight.device)
    causal = torch.full((3, 3), blocked, device=weight.device, dtype=weight.dtype).triu(1)
    siblings = torch.full((2, 5), blocked, device=weight.device, dtype=weight.dtype)
    siblings[:, :3], siblings[0, 3], siblings[1, 4] = 0.0, 0.0, 0.0
    found = []
    for step in range(head.modules_chained):
        memory = KVMemory(head.layers_per_pass, 8)
        places = torch.arange(3, device=weight.device)
        found.append(head.follow(tokens, states, places, causal, embedding, memory, step))
        memory.extend(3)
        place = torch.tensor([3, 3], device=weight.device)
        found.append(head.follow(tokens[:2], found[-1][1:], place, siblings, embedding, memory, step))
    return torch.cat(found)
