"""EAGLE-3 heads of the package `specforge`: made, saved and run by its own class."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("specforge==0.2.0 --no-deps", "transformers==5.19.0", "accelerate", "numpy", "packaging")
USUAL = [2, 3, 4]  # its default for a target of seven: what the layers 1, n // 2 - 1 and n - 4 return
FOLDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "whole-vocabulary": {"draft_vocab_size": common.VOCABULARY},
    "no-last-norm": {"norm_output": False},
    "last-norm": {"norm_output": True},
    "fc-norm": {"fc_norm": True},
    "layers": {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 4, 6], "use_aux_hidden_state": True}},
}


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each of `FOLDERS`."""
    for seed, (name, options) in enumerate(FOLDERS.items(), 200):
        _one(out / f"specforge-{name}", target, seed, options)


def _one(folder: Path, target: common.Target, seed: int, options: dict[str, Any]) -> None:
    from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3
    from transformers import LlamaConfig

    entries = {"draft_vocab_size": common.GUESSED, "num_hidden_layers": 1, "tie_word_embeddings": False}
    model = LlamaForCausalLMEagle3(LlamaConfig(**common.LAYER, **entries | options)).eval()
    common.scatter(model, seed)
    ids = common.draft_vocabulary() if model.draft_vocab_size < common.VOCABULARY else None
    with torch.no_grad():  # its training takes them from the target and from counts
        model.embed_tokens.weight.copy_(target.weights["model.embed_tokens.weight"])
        if ids is not None:
            model.t2d.zero_().index_fill_(0, ids, True)
            model.d2t.copy_(ids - torch.arange(len(ids)))
    model.save_pretrained(folder)
    returned = options.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
    layers = USUAL if returned is None else [number + 1 for number in returned]
    states = target.joined(layers)
    found = common.chains(lambda begun, guessed: logits(model, states, begun, guessed), ids)
    ran = (
        f"specforge {version('specforge')}: LlamaForCausalLMEagle3.backbone, step by step as in its training"
    )
    common.write(folder, "eagle3", ran, found, layers)


@torch.no_grad()
def logits(model: Any, states: Tensor, begun: list[int], guessed: list[int]) -> Tensor:
    """Logits (k,) of the token after a beginning and its guesses.

    As in its training each step has a row for every place t, pairing token t + 1 + i with the states at t or with its
    output of the step before, and sees the first step up to t and the later ones at t. The last row is asked for.
    """
    rows, tokens = len(begun) - 1, torch.tensor([(begun + guessed)[1:]])
    found, seen = model.project_hidden_states(states[None, :rows]), [[], []]  # type: ignore[var-annotated]
    mask = torch.ones(1, rows, dtype=torch.bool)
    wide = model.prepare_decoder_attention_mask(mask, found, 1, rows, 0)
    for step in range(len(guessed) + 1):
        embedded = model.embed_input_ids(tokens[:, step : step + rows])
        found = model.backbone(
            input_embeds=embedded,
            hidden_states=found,
            cache_hidden=seen,
            attention_mask=wide,
            position_ids=torch.arange(rows)[None],
        )
    last: Tensor = model.compute_logits(found)[0, -1]
    return last
