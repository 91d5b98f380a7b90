"""Kinds of heads that are refused by name: configuration and names of weights only, as their packages write them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import common
from .speculators_heads import PACKAGES as PACKAGES

KINDS = {
    "dflash2": ("DFlash2DraftModel", "DFlash2SpeculatorConfig"),
    "peagle": ("PEagleDraftModel", "PEagleSpeculatorConfig"),
    "xpress": ("XPressDraftModel", "XPressSpeculatorConfig"),
}
"""By `speculators_model_type`, the class and its configuration."""


def make(out: Path, target: common.Target) -> None:
    """Write `others/<kind>.json`: config.json's object, and each weight's shape."""
    (out / "others").mkdir(exist_ok=True)
    for kind, names in KINDS.items():
        found = _one(kind, *names)
        if found is not None:
            (out / "others" / f"{kind}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _one(kind: str, model: str, config: str) -> dict[str, Any] | None:
    from importlib import import_module
    from tempfile import TemporaryDirectory

    from safetensors import safe_open
    from speculators import SpeculatorsConfig, VerifierConfig
    from speculators.proposals import GreedyTokenProposalConfig
    from transformers import LlamaConfig, Qwen3Config

    package = import_module(f"speculators.models.{kind}")
    shape: Any = LlamaConfig if kind == "peagle" else Qwen3Config
    layer = shape(num_hidden_layers=2, **common.LAYER)
    layer._attn_implementation = "eager"
    numbers = "eagle_aux_hidden_state_layer_ids" if kind == "peagle" else "aux_hidden_state_layer_ids"
    reduced = kind == "peagle"  # the others ask for the whole vocabulary, or may
    entries = {
        "draft_vocab_size": common.GUESSED if reduced else common.VOCABULARY,
        numbers: [2, 3, 4],
        "mask_token_id": 0,
    }
    entries |= {} if kind == "peagle" else {"block_size": 8}
    made = getattr(package, model)(
        getattr(package, config)(
            transformer_layer_config=layer,
            speculators_config=SpeculatorsConfig(
                algorithm=kind,
                proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=7)],
                default_proposal_method="greedy",
                verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]),
            ),
            **entries,
        )
    )
    common.scatter(made, 600)
    with TemporaryDirectory() as place:
        made.save_pretrained(place)
        with safe_open(Path(place) / "model.safetensors", "pt") as weights:
            shapes = {name: list(weights.get_slice(name).get_shape()) for name in sorted(weights.keys())}
        written = json.loads((Path(place) / "config.json").read_text())
    return {"ran": f"speculators {version('speculators')}", "config": written, "weights": shapes}
