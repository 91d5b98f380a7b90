"""MTP modules in their target's own folder, run by vLLM's engine on a CPU: MiMo's, and Qwen3-Next's without experts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from . import common
from .vllm_layouts import PACKAGES as PACKAGES
from .vllm_layouts import chains

WIDTH = 64  # vLLM takes MiMo's heads to be hidden size / heads wide
LAYER = common.LAYER | {"hidden_size": WIDTH}
MIMO = {
    "token_layernorm": (WIDTH,),
    "hidden_layernorm": (WIDTH,),
    "final_layernorm": (WIDTH,),
    "input_proj": (WIDTH, 2 * WIDTH),
}
QWEN = {
    "pre_fc_norm_embedding": (WIDTH,),
    "pre_fc_norm_hidden": (WIDTH,),
    "norm": (WIDTH,),
    "fc": (WIDTH, 2 * WIDTH),
}


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each maker."""
    _mimo(out / "mimo")
    _qwen_next(out / "qwen3-next")


def _mimo(folder: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

    config: Any = Qwen2Config(num_hidden_layers=1, tie_word_embeddings=False, **LAYER)
    made = Qwen2ForCausalLM(config), Qwen2DecoderLayer(config, 0)
    entries = {"architectures": ["MiMoForCausalLM"], "num_nextn_predict_layers": 1}
    before = "model.mtp_layers.0."
    _one(folder, made, {part: f"{before}{part}" for part in MIMO}, MIMO, before, entries, 520)


def _qwen_next(folder: Path) -> None:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextDecoderLayer

    config: Any = Qwen3NextConfig(
        num_hidden_layers=1, tie_word_embeddings=False, layer_types=["full_attention"], num_experts=0, **LAYER
    )
    made = Qwen3NextForCausalLM(config), Qwen3NextDecoderLayer(config, 0)
    entries = {"num_nextn_predict_layers": 1}
    _one(folder, made, {part: f"mtp.{part}" for part in QWEN}, QWEN, "mtp.layers.0.", entries, 530)


@torch.no_grad()
def _one(
    folder: Path,
    made: tuple[Any, nn.Module],
    names: dict[str, str],
    parts: dict[str, tuple[int, ...]],
    before: str,
    entries: dict[str, Any],
    seed: int,
) -> None:
    """Write a target with one module: its layer's tensors begin with `before`, those of `parts` are called `names`."""
    model, layer = made[0].eval(), made[1]
    drawn = torch.Generator().manual_seed(seed)
    from_zero = model.config.model_type == "qwen3_next"  # its norms multiply by 1 + weight
    for module in made:
        common.scatter(module, seed)
        for weight in module.parameters():
            if from_zero and weight.ndim == 1:
                weight.sub_(1)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {f"{before}{key}": value for key, value in layer.state_dict().items()}
    for part, shape in parts.items():
        random = torch.randn(*shape, generator=drawn)
        norm = 0.4 * random + (0 if from_zero else 1)
        tensors[f"{names[part]}.weight"] = norm if len(shape) == 1 else 0.2 * random
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text()) | entries
    text = _text(model)
    small = {key: value.bfloat16() for key, value in tensors.items()}
    common.write(folder, "mtp", "", {"chains": []}, [], small, config, text=text)
    there = {"method": "mtp", "num_speculative_tokens": common.DEPTH}
    found, ran = chains(folder, text, there, without_experts=from_zero)
    layers = [] if from_zero else [1]
    common.write(folder, "mtp", ran, {"chains": found}, layers, text=text)


def _text(model: Any) -> list[int]:
    """Two tokens and what the target writes behind them by its likeliest token, from the weights that are written."""
    rounded: dict[str, Tensor] = {key: value.bfloat16().float() for key, value in model.state_dict().items()}
    model.load_state_dict(rounded)
    text = common.TEXT[:2]
    while len(text) < len(common.TEXT):
        text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return text
