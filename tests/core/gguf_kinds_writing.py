"""Small GGUF files of each architecture that is read, with weights that bfloat16 holds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .gguf_writing import add_tokenizer

Leaves = dict[str, tuple[int, ...]]  # shapes by name
WIDTH, HEADS, SHARED, HEAD, INNER, EXPERTS, VOCABULARY, CONTEXT = 64, 4, 2, 16, 96, 4, 260, 128
_ATTENTION: Leaves = {
    "attn_q.weight": (WIDTH, WIDTH),
    "attn_k.weight": (SHARED * HEAD, WIDTH),
    "attn_v.weight": (SHARED * HEAD, WIDTH),
    "attn_output.weight": (WIDTH, WIDTH),
}
_NORMS: Leaves = {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)}
_AFTER: Leaves = {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
_HEAD_NORMS: Leaves = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
_FEED: Leaves = {
    "ffn_gate.weight": (INNER, WIDTH),
    "ffn_up.weight": (INNER, WIDTH),
    "ffn_down.weight": (WIDTH, INNER),
}
_EXPERTS: Leaves = {
    "ffn_gate_inp.weight": (EXPERTS, WIDTH),
    "ffn_gate_exps.weight": (EXPERTS, INNER, WIDTH),
    "ffn_up_exps.weight": (EXPERTS, INNER, WIDTH),
    "ffn_down_exps.weight": (EXPERTS, WIDTH, INNER),
}
_SHARED: Leaves = {
    "ffn_gate_inp_shexp.weight": (WIDTH,),
    "ffn_gate_shexp.weight": (INNER, WIDTH),
    "ffn_up_shexp.weight": (INNER, WIDTH),
    "ffn_down_shexp.weight": (WIDTH, INNER),
}


def _biases(*leaves: str) -> Leaves:
    whole = _ATTENTION | _FEED | {"attn_qkv.weight": (3 * WIDTH, WIDTH)}
    return {f"{leaf}.bias": whole.get(f"{leaf}.weight", (WIDTH,))[:1] for leaf in leaves}


_PLAIN: Leaves = _ATTENTION | _NORMS | _FEED
QKV, ALL = _biases("attn_q", "attn_k", "attn_v"), _biases("attn_q", "attn_k", "attn_v", "attn_output")
MLP = _biases("ffn_gate", "ffn_up", "ffn_down")
_FUSED: Leaves = {"attn_qkv.weight": (WIDTH + 2 * SHARED * HEAD, WIDTH), "attn_output.weight": (WIDTH, WIDTH)}
_LAYER_NORMED: Leaves = _NORMS | _biases("attn_norm", "ffn_norm")
_GPT2: Leaves = {"attn_qkv.weight": (3 * WIDTH, WIDTH), "attn_output.weight": (WIDTH, WIDTH)}
_TWO: Leaves = {"ffn_up.weight": (INNER, WIDTH), "ffn_down.weight": (WIDTH, INNER)}
LEAVES: dict[str, Leaves] = {
    "llama": _PLAIN,
    "qwen2": _PLAIN | QKV,
    "qwen3": _PLAIN | _HEAD_NORMS,
    "qwen2moe": _ATTENTION | QKV | _NORMS | _EXPERTS | _SHARED,
    "qwen3moe": _ATTENTION | _NORMS | _HEAD_NORMS | _EXPERTS,
    "gemma": _PLAIN,
    "gemma2": _PLAIN | _AFTER,
    "gemma3": _PLAIN | _AFTER | _HEAD_NORMS,
    "granite": _PLAIN,
    "olmo2": _ATTENTION
    | _FEED
    | _AFTER
    | {"attn_q_norm.weight": (WIDTH,), "attn_k_norm.weight": (SHARED * HEAD,)},
    "phi3": _FUSED | _NORMS | {"ffn_up.weight": (2 * INNER, WIDTH), "ffn_down.weight": (WIDTH, INNER)},
    "smollm3": _PLAIN,
    "starcoder2": _ATTENTION | ALL | _LAYER_NORMED | _TWO | _biases("ffn_up", "ffn_down"),
    "gpt2": _GPT2 | _biases("attn_qkv", "attn_output") | _LAYER_NORMED | _TWO | _biases("ffn_up", "ffn_down"),
}
_LAYER_NORM = ("starcoder2", "gpt2")

_FACTORS, _WIDE = np.array([1, 1, 1, 2, 4, 8, 8, 8]), np.array([1, 1.5, 2, 3, 4, 8])
_LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 5.0}
_YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 5.0, "rope.scaling.original_context_length": 25}
_LONG = {
    "rope.scaling.original_context_length": 1024,
    "context_length": 2048,
    "rope.scaling.attn_factor": 1.25,
}
# name → architecture, arguments of `write`
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in LEAVES if kind not in ("gemma2", "gemma3", "granite", "smollm3")},
    "llama, factors as a tensor": ("llama", {"tensors": {"rope_freqs.weight": _FACTORS}}),
    "llama, linear": ("llama", {"facts": _LINEAR}),
    "llama, linear by its old name": ("llama", {"facts": {"rope.scale_linear": 4.0}}),
    "llama, linear and factors": ("llama", {"facts": _LINEAR, "tensors": {"rope_freqs.weight": _FACTORS}}),
    "llama, longer vectors": ("llama", {"facts": {**_LINEAR, "rope.scaling.attn_factor": 1.5}}),
    "llama, a factor that is switched off": ("llama", {"facts": {**_LINEAR, "rope.scaling.type": "none"}}),
    "llama, yarn": ("llama", {"facts": {**_YARN, "rope.scaling.attn_factor": 1.25}}),
    "llama, longrope": (
        "llama",
        {
            "facts": {**_LONG, "rope.scaling.type": "longrope"},
            "tensors": {"rope_factors_short.weight": _FACTORS, "rope_factors_long.weight": 2 * _FACTORS},
        },
    ),
    "llama, biases of queries, keys and values": ("llama", {"leaves": QKV}),
    "llama, all biases": ("llama", {"leaves": ALL | MLP}),
    "qwen2, yarn": ("qwen2", {"facts": _YARN}),
    "qwen3, wide heads": ("qwen3", {"head": 32}),
    "gemma2": ("gemma2", {"facts": {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}}),
    "gemma3": ("gemma3", {"facts": {**_LINEAR, "rope.freq_base_swa": 50.0}, "layers": 7}),
    "gemma3, every other layer slides": (
        "gemma3",
        {"facts": {"attention.sliding_window_pattern": 2}, "layers": 3},
    ),
    "granite": (
        "granite",
        {
            "facts": {
                "attention.scale": 0.1,
                "embedding_scale": 1.5,
                "residual_scale": 0.5,
                "logit_scale": 2.0,
            }
        },
    ),
    "phi3, a part of each head turns": (
        "phi3",
        {
            "facts": {**_LONG, "rope.dimension_count": 12},
            "tensors": {"rope_factors_short.weight": _WIDE, "rope_factors_long.weight": 2 * _WIDE},
        },
    ),
    "smollm3": ("smollm3", {"layers": 5}),
}
PROMPT = [1, *((7 * at * at + 5 * at + 3) % 250 + 5 for at in range(39))]


def write(
    path: Path,
    architecture: str,
    facts: Mapping[str, Any] | None = None,
    leaves: Mapping[str, tuple[int, ...]] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    layers: int = 2,
    head: int = HEAD,
) -> Path:
    """A random model.

    Args:
        facts: further entries of the architecture, or others in place of the usual ones; None leaves one out.
        leaves: further tensors of each layer, by their shapes.
        tensors: further tensors, as they are.
        head: the width of a head; other than 16 it is written as `attention.key_length`.
    """
    writer = gguf.GGUFWriter(path, architecture)
    epsilon = (
        "attention.layer_norm_epsilon" if architecture in _LAYER_NORM else "attention.layer_norm_rms_epsilon"
    )
    entries: dict[str, Any] = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": layers,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        epsilon: 1e-5,
    }
    if architecture != "gpt2":
        entries |= {"attention.head_count_kv": SHARED, "rope.freq_base": 500.0}
    if "gemma" in architecture or head != HEAD:
        entries |= {"attention.key_length": head, "attention.value_length": head}
    if architecture in ("gemma2", "gemma3"):
        entries["attention.sliding_window"] = 8
    if architecture.endswith("moe"):
        entries |= {"expert_count": EXPERTS, "expert_used_count": 2, "expert_feed_forward_length": INNER}
    if architecture == "qwen2moe":
        entries["expert_shared_feed_forward_length"] = INNER
    for key, value in (entries | dict(facts or {})).items():
        _add(writer, f"{architecture}.{key}", value)
    add_tokenizer(writer)
    random = np.random.default_rng(11)
    for name, shape in _shapes(
        architecture, {**LEAVES[architecture], **(leaves or {})}, layers, head
    ).items():
        writer.add_tensor(name, _values(random, name, shape))
    for name, value in (tensors or {}).items():
        writer.add_tensor(name, value.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif value is not None:
        writer.add_array(key, value)


def _shapes(architecture: str, leaves: Mapping[str, tuple[int, ...]], layers: int, head: int) -> Leaves:
    shapes: Leaves = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    if architecture in _LAYER_NORM:
        shapes["output_norm.bias"] = (WIDTH,)
    if architecture == "gpt2":
        shapes["position_embd.weight"] = (CONTEXT, WIDTH)
    if architecture in ("gpt2", "olmo2", "qwen2moe"):
        shapes["output.weight"] = (VOCABULARY, WIDTH)
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{leaf}": _wider(leaf, shape, head) for leaf, shape in leaves.items()}
    return shapes


def _wider(leaf: str, shape: tuple[int, ...], head: int) -> tuple[int, ...]:
    """The shape for heads of another width."""
    if head == HEAD or not leaf.startswith("attn_") or leaf == "attn_norm.weight":
        return shape
    if leaf.startswith("attn_output"):
        return shape[0], HEADS * head
    return shape[0] // HEAD * head, *shape[1:]


def _values(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Multiples of 1/64 below 4, which bfloat16 holds: seven bits behind the first one."""
    spread = 1.0 if name.startswith(("token_embd", "position")) else 2.0 * shape[-1] ** -0.5
    drawn = np.clip(random.standard_normal(shape), -2, 2)
    if "norm" in name and name.endswith(".weight"):
        return (1 + np.round(drawn * 12) / 64).astype(np.float32)
    return (np.round(drawn * spread * 32) / 64).astype(np.float32)
