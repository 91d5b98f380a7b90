"""Random heads for the tiny models, and the true states they read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor
from transformers import LlamaConfig

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import BlockHead, Eagle3Head, EagleHead, MedusaHeads, MtpModules
from specdec_core.models.heads.block import BlockShape
from specdec_measure.testing import Letters

from .tiny import build, module

WIDTH = 32  # hidden size of all tiny models
LAYERS_READ = (0, 1, 1)  # of their two layers
Head = TypeVar("Head", bound=torch.nn.Module)


def medusa_heads(
    vocabulary: int, heads: int = 4, blocks: int = 1, shared: bool = False, seed: int = 0
) -> MedusaHeads:
    """Heads with random weights everywhere, even where training would start at zero."""
    made = MedusaHeads(heads, blocks, WIDTH, None if shared else vocabulary)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0.0, 0.4, generator=generator)
    return made.requires_grad_(False).eval()


def eagle_head(vocabulary: int, bias: bool = True, embedding: bool = False, seed: int = 0) -> EagleHead:
    """A head with random weights: its guesses vary, and rounding errors do not grow from level to level."""
    return _random(EagleHead(_layer(vocabulary), bias, embedding), seed)


def eagle3_head(
    vocabulary: int,
    embedding: bool = False,
    ids: Tensor | None = None,
    norm_first: bool = False,
    seed: int = 0,
    layers: tuple[int, ...] = LAYERS_READ,
) -> Eagle3Head:
    """A head with random weights on what the layers of a tiny target read, of which one twice."""
    made = Eagle3Head(_layer(vocabulary), len(layers) * WIDTH, layers, embedding, ids, norm_first)
    return _random(made, seed)


def mtp_modules(vocabulary: int, count: int = 2, seed: int = 0) -> MtpModules:
    """Modules with random weights; fewer than the tree's usual levels, so that the last one goes on with its own
    states."""
    return _random(MtpModules(_layer(vocabulary), count), seed)


def block_head(
    vocabulary: int,
    inner: str = "vanilla",
    ids: Tensor | None = None,
    size: int = 4,
    from_anchor: bool = True,
    causal: bool = False,
    norms: bool = False,
    depth: int = 2,
    confidence: bool = False,
    seed: int = 0,
) -> BlockHead:
    """A head with random weights; its mask token is 1."""
    config = _layer(vocabulary)
    config.num_hidden_layers = depth
    tensors = [f"layers.{at}.self_attn.q_norm.weight" for at in range(depth)] if norms else []
    block = BlockShape(LAYERS_READ, size, 1, from_anchor, causal, inner, 6 if inner else 0, confidence)
    return _random(BlockHead(config, block, len(LAYERS_READ) * WIDTH, ids, tensors=tensors), seed)


def _layer(vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )


def _random(made: Head, seed: int) -> Head:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0.0, 0.2, generator=generator)
    return made.requires_grad_(False).eval()


def all_heads(vocabulary: int, shared: bool = False) -> dict[str, torch.nn.Module]:
    """Random heads of every kind."""
    return {
        "medusa": medusa_heads(vocabulary, shared=shared),
        "eagle": eagle_head(vocabulary),
        "eagle3": eagle3_head(vocabulary),
        "mtp": mtp_modules(vocabulary),
        "block": block_head(vocabulary),
    }


@cache
def headed(architecture: str, vocabulary: int = 12, shared: bool = False) -> sd.Models:
    """A tiny target with random heads and few tokens, so that wide trees often contain the right one."""
    target = build(architecture, vocab_size=vocabulary)
    models = sd.Models(Letters(vocabulary), HubModel("tiny target", target))
    return replace(models, heads=all_heads(vocabulary, shared))


@torch.inference_mode()
def true_states(models: sd.Models, text: list[int]) -> Tensor:
    """The input of the output matrix at every place of `text`, (n, d), by a plain transformers pass."""
    model, seen = module(models), []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(torch.tensor([text]))
    finally:
        hook.remove()
    return seen[0][0]


def texts(trace: sd.Trace) -> list[list[int]]:
    """The text before each round, prompt included."""
    text, found = list(trace.header.prompt_ids), []
    for row in trace.rounds:
        found.append(list(text))
        text += row.committed.token
    return found
