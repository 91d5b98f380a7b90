"""How does a checkpoint become a folder that transformers opens? Config, float16 weights, tokenizer."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from training.checkpoints import load_shape, load_weights
from training.data.tokenizer import load_tokenizer, save_tokenizer
from training.shapes import EOS_ID, Shape


def llama_config(shape: Shape) -> dict[str, Any]:
    """The `config.json` of a model of this shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.max_positions,
        "rms_norm_eps": shape.norm_eps,
        # Both spellings: rope_theta is read by older transformers, rope_parameters by version 5.
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": EOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": EOS_ID,
        "dtype": "float16",
        "use_cache": True,
    }


def write_model(folder: Path, shape: Shape, weights: dict[str, Tensor], tokenizer_folder: Path) -> None:
    """Write a complete model folder, swapped in only when whole (an app may be reading the old one)."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    halves = {name: weight.to(torch.float16).contiguous() for name, weight in weights.items()}
    for name, half in halves.items():
        if not torch.isfinite(half).all():
            raise ValueError(f"Weight {name} does not fit into float16: the run diverged, do not export it.")
    save_file(halves, partial / "model.safetensors", metadata={"format": "pt"})
    write_json(partial / "config.json", llama_config(shape))
    generation = {"bos_token_id": EOS_ID, "eos_token_id": EOS_ID, "pad_token_id": EOS_ID, "do_sample": False}
    write_json(partial / "generation_config.json", generation)
    save_tokenizer(load_tokenizer(tokenizer_folder), partial)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(partial.iterdir()):
        file.chmod(0o644)  # safetensors writes files only their owner can read
        os.replace(file, folder / file.name)
    partial.rmdir()


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write indented JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def export(checkpoint: Path, tokenizer_folder: Path, folder: Path) -> None:
    """Export one checkpoint to one model folder."""
    write_model(folder, load_shape(checkpoint), load_weights(checkpoint), tokenizer_folder)
