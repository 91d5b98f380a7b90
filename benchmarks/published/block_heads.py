"""Block heads of the packages `dflash` (z-lab's) and `speculators`: made, saved and run by their own classes."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("speculators==0.9.0", "transformers==5.19.0", "--no-deps dflash==0.1.0")
SIZE, MASK = 5, 299
FOLDERS: dict[str, dict[str, Any]] = {
    "dflash": {},
    "dflash-reduced": {"draft_vocab_size": common.GUESSED},
    "dspark-vanilla": {"markov_rank": 8},
    "dspark-gated": {"markov_rank": 8, "markov_head_type": "gated", "draft_vocab_size": common.GUESSED},
    "dspark-rnn": {"markov_rank": 8, "markov_head_type": "rnn", "confidence_head_with_markov": False},
    "dspark-masks": {"markov_rank": 8, "sample_from_anchor": False, "enable_confidence_head": False},
}
RETURNED = {"z-lab": [0, 2, 4], "z-lab-causal": [1, 3, 5]}  # counted by what layers return


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each of `RETURNED` and of `FOLDERS`."""
    for seed, (name, returned) in enumerate(RETURNED.items(), 400):
        _z_lab(out / name, target, seed, returned, name.endswith("causal"))
    for seed, (name, options) in enumerate(FOLDERS.items(), 410):
        _speculators(out / f"speculators-{name}", target, seed, dict(options))


@torch.no_grad()
def _z_lab(folder: Path, target: common.Target, seed: int, returned: list[int], causal: bool) -> None:
    from dflash import DFlashDraftModel
    from transformers import Qwen3Config

    config: Any = Qwen3Config(
        num_hidden_layers=2, tie_word_embeddings=False, architectures=["DFlashDraftModel"], **common.LAYER
    )
    config.block_size, config.num_target_layers = SIZE, common.LAYERS
    config.dflash_config = {"target_layer_ids": returned, "mask_token_id": MASK}
    if causal:
        config.is_causal = True
    model = DFlashDraftModel(config).eval()
    common.scatter(model, seed)
    model.save_pretrained(folder)
    layers = [one + 1 for one in returned]
    states, embedding = target.joined(layers), target.weights["model.embed_tokens.weight"]
    matrix = target.weights["lm_head.weight"]

    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        rows = len(begun) - 1
        block = torch.tensor([begun[-1], *[MASK] * (SIZE - 1)])
        found = model(
            position_ids=torch.arange(rows + SIZE)[None],
            noise_embedding=embedding[block][None],
            target_hidden=states[None, :rows],
        )
        slot: Tensor = found[0, 1 + len(guessed)] @ matrix.T
        return slot

    ran = f"dflash {version('dflash')}: DFlashDraftModel.forward"
    common.write(folder, "block", ran, common.chains(logits), layers)


@torch.no_grad()
def _speculators(folder: Path, target: common.Target, seed: int, options: dict[str, Any]) -> None:
    from speculators import SpeculatorsConfig, VerifierConfig
    from speculators.models.dflash import DFlashDraftModel, DFlashSpeculatorConfig
    from speculators.models.dspark import DSparkDraftModel, DSparkSpeculatorConfig
    from speculators.proposals import GreedyTokenProposalConfig
    from transformers import Qwen3Config

    spark = "markov_rank" in options
    layer = Qwen3Config(num_hidden_layers=2, **common.LAYER)
    layer._attn_implementation = "eager"
    layers = [1, 3, 6]
    kind: Any = DSparkSpeculatorConfig if spark else DFlashSpeculatorConfig
    config = kind(
        transformer_layer_config=layer,
        block_size=SIZE,
        aux_hidden_state_layer_ids=layers,
        mask_token_id=MASK,
        speculators_config=SpeculatorsConfig(
            algorithm="dspark" if spark else "dflash",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=common.DEPTH)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]),
        ),
        **({"draft_vocab_size": common.VOCABULARY} | options),
    )
    model: Any = (DSparkDraftModel if spark else DFlashDraftModel)(config).eval()
    ids = common.draft_vocabulary() if config.draft_vocab_size < common.VOCABULARY else None
    if ids is not None:
        t2d = torch.zeros(common.VOCABULARY, dtype=torch.bool).index_fill_(0, ids, True)
        model.load_vocab_mappings(t2d, ids - torch.arange(len(ids)))
    common.scatter(model, seed)
    model.embed_tokens.weight.copy_(target.weights["model.embed_tokens.weight"])
    if ids is None:  # as its `load_verifier_weights` does
        model.lm_head.weight.copy_(target.weights["lm_head.weight"])
    model.save_pretrained(folder)
    (folder / "config.py").unlink(missing_ok=True)  # a copy of its own source
    hidden, base = _blocks(model, target.joined(layers))
    first = 0 if config.sample_from_anchor else 1

    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        at, slot = len(begun) - 1, first + len(guessed)
        found: Tensor = base[at, slot]
        if spark:
            before = torch.tensor([[*[begun[-1]] * (1 + first), *guessed, *[0] * SIZE][:SIZE]])
            found = (
                found
                + model.markov_head.block_bias(prev_token_ids=before, hidden_states=hidden[at : at + 1])[
                    0, slot
                ]
            )
        return found

    ran = (
        f"speculators {version('speculators')}: {type(model).__name__}, its blocks at every place of the text"
    )
    common.write(folder, "block", ran, common.chains(logits, ids), layers)


def _blocks(model: Any, states: Tensor) -> tuple[Tensor, Tensor]:
    """States and logits of the block at every place of the text, (30, SIZE, …): its training pass, with all places as
    anchors, on the text and as many tokens more as it leaves out at the end."""
    count = len(common.TEXT)
    tokens = torch.tensor([[*common.TEXT, *[0] * SIZE]])
    padded = torch.cat((states, states.new_zeros(SIZE, states.shape[1])))[None]
    last = padded.new_zeros(1, count + SIZE, common.WIDTH)
    seen = torch.ones_like(tokens)
    hidden, logits, *_ = model._backbone_forward(
        padded, tokens, seen, last, torch.zeros_like(tokens), max_anchors=count
    )
    return hidden.view(count, SIZE, -1), logits.view(count, SIZE, -1)
