"""Random Medusa and EAGLE heads for the tiny models, and the true states they read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from transformers import LlamaConfig

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import EagleHead, MedusaHeads
from specdec_core.testing import Letters

from .tiny import build, module

WIDTH = 32  # hidden size of all tiny models


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
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    made = EagleHead(config, bias, embedding)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0.0, 0.2, generator=generator)
    return made.requires_grad_(False).eval()


@cache
def headed(architecture: str, vocabulary: int = 12, shared: bool = False) -> sd.Models:
    """A tiny target with random heads and few tokens, so that wide trees often contain the right one."""
    target = build(architecture, vocab_size=vocabulary)
    models = sd.Models(Letters(vocabulary), HubModel("tiny target", target))
    heads = {"medusa": medusa_heads(vocabulary, shared=shared), "eagle": eagle_head(vocabulary)}
    return replace(models, heads=heads)


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
