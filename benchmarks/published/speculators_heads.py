"""EAGLE-3 heads of the package `speculators`: made, saved and run by its own class."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("speculators==0.9.0", "transformers==5.19.0")
USUAL = [2, 3, 4]  # its default layers for a target of seven: 2, n // 2, n - 3
FOLDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "whole-vocabulary": {"draft_vocab_size": common.VOCABULARY},
    "norm-before-residual": {"norm_before_residual": True},
    "fc-norm": {"fc_norm": True},
    "norm-before-fc": {"norm_before_fc": True},
    "norm-output": {"norm_output": True},
    "trained-defaults": {"norm_before_fc": True, "norm_output": True, "norm_before_residual": True},
    "two-layers": {"layers": 2},
    "qwen3": {"shape": "qwen3"},
    "five-states": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 5, 7]},
}


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each of `FOLDERS`."""
    for seed, (name, options) in enumerate(FOLDERS.items(), 100):
        _one(out / f"speculators-{name}", target, seed, dict(options))


def _one(folder: Path, target: common.Target, seed: int, options: dict[str, Any]) -> None:
    from speculators import SpeculatorsConfig, VerifierConfig
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
    from speculators.proposals import GreedyTokenProposalConfig
    from transformers import LlamaConfig, Qwen3Config

    kind: Any = Qwen3Config if options.pop("shape", "") == "qwen3" else LlamaConfig
    layer = kind(num_hidden_layers=options.pop("layers", 1), **common.LAYER)
    layer._attn_implementation = "eager"
    entries: dict[str, Any] = {
        "draft_vocab_size": common.GUESSED,
        "eagle_aux_hidden_state_layer_ids": USUAL,
    } | options
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        speculators_config=SpeculatorsConfig(
            algorithm="eagle3",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=common.DEPTH)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]),
        ),
        **entries,
    )
    model = Eagle3DraftModel(config)
    ids = common.draft_vocabulary() if entries["draft_vocab_size"] < common.VOCABULARY else None
    if ids is not None:
        t2d = torch.zeros(common.VOCABULARY, dtype=torch.bool).index_fill_(0, ids, True)
        model.load_vocab_mappings(t2d, ids - torch.arange(len(ids)))
    common.scatter(model, seed)
    with torch.no_grad():  # its training takes both from the target
        model.embed_tokens.weight.copy_(target.weights["model.embed_tokens.weight"])
    model.eval().save_pretrained(folder)
    (folder / "config.py").unlink()  # a copy of its own source
    layers = entries["eagle_aux_hidden_state_layer_ids"]
    states = target.joined(layers)
    found = common.chains(lambda begun, guessed: logits(model, states, begun, guessed), ids)
    common.write(
        folder, "eagle3", f"speculators {version('speculators')}: Eagle3DraftModel.forward", found, layers
    )


@torch.no_grad()
def logits(model: Any, states: Tensor, begun: list[int], guessed: list[int]) -> Tensor:
    """Logits (k,) of the token after a beginning and its guesses: its forward pass, one step more than guesses.

    Row t of step i pairs token t + 1 + i with the states at t, or with its own output of the step before. So the row
    that is asked for is the last one whose first token is not a guess.
    """
    last, seen = len(begun) - 2, []
    hook = model.lm_head.register_forward_hook(lambda _, __, given: seen.append(given))
    tokens = torch.tensor([(begun + guessed)[1:]])
    rows = torch.cat((states[: last + 1], torch.zeros(len(guessed), states.shape[1])))[None]
    model(rows, tokens, torch.zeros_like(tokens), ttt_steps=len(guessed) + 1)
    hook.remove()
    found: Tensor = seen[-1][0, last]
    return found
