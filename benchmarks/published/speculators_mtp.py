"""MTP heads: of the package `speculators` in its own names and, by its converter's table, in those of Qwen's files.

Its class trains each step on rows of that step alone, which no engine drafts with: only first guesses are kept.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import common
from .speculators_heads import PACKAGES as PACKAGES

NAMES = {
    "mtp_layers.0.hidden_layernorm.": "mtp.pre_fc_norm_hidden.",
    "mtp_layers.0.token_layernorm.": "mtp.pre_fc_norm_embedding.",
    "mtp_layers.0.input_proj.": "mtp.fc.",
    "mtp_layers.0.final_layernorm.": "mtp.norm.",
    "mtp_layers.0.": "mtp.layers.0.",
}
"""Its names and Qwen's, the first that fits."""


def make(out: Path, target: common.Target) -> None:
    """Write a folder in its own layout, and two in Qwen's."""
    from transformers import Qwen3_5TextConfig, Qwen3Config

    plain: Any = Qwen3Config(num_hidden_layers=common.LAYERS, **common.LAYER)
    gated: Any = Qwen3_5TextConfig(
        num_hidden_layers=common.LAYERS, layer_types=["full_attention"] * common.LAYERS, **common.LAYER
    )
    _one(out, "speculators-mtp-qwen3", "qwen-mtp-qwen3", plain, target, 400)
    _one(out, None, "qwen-mtp-qwen3.5", gated, target, 401)


def _one(out: Path, own: str | None, qwen: str, layer: Any, target: common.Target, seed: int) -> None:
    from speculators import SpeculatorsConfig, VerifierConfig
    from speculators.models.mtp import MTPDraftModel, MTPSpeculatorConfig
    from speculators.proposals import GreedyTokenProposalConfig

    layer._attn_implementation = "eager"
    config = MTPSpeculatorConfig(
        transformer_layer_config=layer,
        speculators_config=SpeculatorsConfig(
            algorithm="mtp",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=1)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]),
        ),
    )
    model: Any = MTPDraftModel(config).eval()
    common.scatter(model, seed)
    with torch.no_grad():
        if "qwen3_5" in layer.model_type:  # its norms multiply by 1 + w
            for weight in model.parameters():
                if weight.ndim == 1:
                    weight.sub_(1)
        model.embed_tokens.weight.copy_(target.weights["model.embed_tokens.weight"])
        model.lm_head.weight.copy_(target.weights["lm_head.weight"])

    @torch.no_grad()
    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        tokens = torch.tensor([[*begun, 0]])  # what its loss is taken at
        states = torch.cat((target.final[: len(begun) - 1], torch.zeros(2, common.WIDTH)))[None]
        found: Tensor = model(tokens, states)[0][0][0, -1]
        return found

    found = common.chains(logits, depth=1)
    ran = f"speculators {version('speculators')}: MTPDraftModel.forward"
    if own is not None:
        model.save_pretrained(out / own)
        (out / own / "config.py").unlink()
        common.write(out / own, "mtp", ran, found, [])
    kept = {key: value for key, value in model.state_dict().items() if key.startswith("mtp_layers.")}
    named = {}
    for key, value in kept.items():
        before, after = next(pair for pair in NAMES.items() if key.startswith(pair[0]))
        named[after + key.removeprefix(before)] = value
    facts = layer.to_dict() | {"mtp_num_hidden_layers": 1, "dtype": "float32"}
    common.write(out / qwen, "mtp", ran + ", written in Qwen's names", found, [], named, facts)
