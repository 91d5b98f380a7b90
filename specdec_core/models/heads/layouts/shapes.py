"""The sizes of a head's decoder layers, from any of the published kinds of configuration, and layers of these sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn
from transformers import LlamaConfig, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from specdec_core.foundations.errors import ModelError

from .contents import ConfigEntries, Contents

SIZES = (  # the entries of a Llama configuration that define a layer
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias",
    "max_position_embeddings",
)  # fmt: skip
ROPE = ("rope_theta", "rope_parameters", "rope_scaling")
NESTED = {"transformer_layer_config": "qwen3", "model": "llama"}
"""Where some makers keep the layer's entries (speculators; vLLM's converted EAGLE heads), and the type meant there if
none is given."""
LIKE_LLAMA = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "mimo",
    "eagle",
    "eagle3",
    "deepseek_v3",
    "kimi_k2",
)
"""Types whose heads have Llama's layer, with biases or without."""
WITH_NORMS = ("qwen3", "qwen3_moe")
"""Types whose queries and keys are normed."""
NO_EFFECT: dict[str, tuple[Any, ...]] = {
    "partial_rotary_factor": (1, 1.0),
    "rope_interleaved": (False,),
    "use_sliding_window": (False,),
    "attn_output_gate": (False,),
    "residual_multiplier": (1, 1.0),
    "qkv_bias": (True, False),  # the tensors decide
    "parallel_drafting": (False,),
}
"""Entries that change a layer unless they have one of these values."""


def layer_entries(contents: Contents) -> ConfigEntries:
    """The entries that describe the layers: those below 'transformer_layer_config' or 'model', else all."""
    key = next((key for key in NESTED if isinstance(contents.config.get(key), Mapping)), None)
    return contents.config if key is None else contents.config.inner(key)


def layer_config(contents: Contents, vocabulary: int) -> LlamaConfig:
    """The sizes of the layers of a head over `vocabulary` logits, as of a Llama model.

    Raises:
        ModelError: if a size is missing or no number, or the layers are of a kind that is not computed here.
    """
    name, entries = contents.name, layer_entries(contents)
    nested = next(
        (kind for key, kind in NESTED.items() if isinstance(contents.config.get(key), Mapping)), None
    )
    kind = entries.get("model_type") or nested or "llama"
    if kind not in (*LIKE_LLAMA, *WITH_NORMS):
        raise ModelError(
            f"'{name}' has layers of the type {repr(kind)[:60]} ('model_type' in its config.json), and those of Llama, "
            "Mistral, Qwen2 and Qwen3 are computed here. Choose another head."
        )
    _check_kind(name, entries, str(kind))
    given = {key: entries[key] for key in (*SIZES, *ROPE) if key in entries}
    if nested is None:
        for key in ("hidden_size", "num_attention_heads", "intermediate_size"):
            number(name, entries, key)
        usual: Any = LlamaConfig
    else:  # the maker leaves out what is usual for the type
        usual = CONFIG_MAPPING.get(kind, LlamaConfig)
    try:
        full = usual(**given)
        sizes = {key: getattr(full, key) for key in SIZES if getattr(full, key, None) is not None}
        sizes |= {key: given[key] for key in ROPE if key in given}
        if kind not in ("llama", "mistral", *WITH_NORMS):  # whose types do not read it: the tensors decide
            sizes["attention_bias"] = False
        if not any(key in given for key in ROPE):
            sizes["rope_parameters"] = full.rope_parameters
        sizes["num_hidden_layers"] = given.get("num_hidden_layers", 1)
        for key in ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"):
            number(name, sizes, key)
        found = LlamaConfig(**(sizes | {"vocab_size": vocabulary}))
    except ModelError:
        raise
    except Exception as error:  # transformers raises many kinds of errors on a damaged configuration
        raise damaged(name, error) from None
    found._attn_implementation = "sdpa"
    return found


def _check_kind(name: str, entries: ConfigEntries, kind: str) -> None:
    """Refuse entries that change a layer in a way that is not computed here."""
    for key, idle in NO_EFFECT.items():
        if key in entries and entries[key] is not None and entries[key] not in idle:
            raise unsupported(name, key, entries[key])
    for key in ("rope_parameters", "rope_scaling"):
        rope = entries.get(key)
        turned = rope.get("rope_type", rope.get("type")) if isinstance(rope, Mapping) else None
        if turned is not None and turned != "default" and turned not in ROPE_INIT_FUNCTIONS:
            raise unsupported(name, f"{key}.rope_type", turned)
    window, types = entries.get("sliding_window"), entries.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or any(one != "full_attention" for one in types):
            raise unsupported(name, "layer_types", types)
    elif window is not None and "use_sliding_window" not in entries and kind not in WITH_NORMS:
        raise unsupported(name, "sliding_window", window)


def unsupported(name: str, key: str, value: object) -> ModelError:
    """The refusal of an entry whose effect is not computed here."""
    return ModelError(
        f"'{name}' has '{key}': {repr(value)[:60]} in its config.json, which is not computed here. Choose another head."
    )


def damaged(name: str, error: Exception) -> ModelError:
    """The refusal of a configuration that transformers does not take, in its words."""
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
    return ModelError(f"'{name}' has a damaged configuration: {reason}.")


def decoder_layer(
    config: LlamaConfig, index: int = 0, tensors: Collection[str] = (), prefix: str = ""
) -> LlamaDecoderLayer:
    """A decoder layer of these sizes, with norms of queries and keys (Qwen3) and biases (Qwen2 and others) where
    `tensors` has them below `prefix`, and the biases that the configuration announces."""
    layer: Any = LlamaDecoderLayer(config, index)
    if any(f"{prefix}self_attn.{one}_norm.weight" in tensors for one in "qk"):
        own = {key: getattr(config, key) for key in SIZES if key not in ("mlp_bias", "num_hidden_layers")}
        shape = Qwen3Config(**own, num_hidden_layers=index + 1, rope_parameters=config.rope_parameters)
        shape._attn_implementation = "sdpa"
        layer.self_attn = Qwen3Attention(shape, index)
    for name, part in (("self_attn", layer.self_attn), ("mlp", layer.mlp)):
        for one, product in list(part.named_children()):
            if (
                isinstance(product, nn.Linear)
                and product.bias is None
                and f"{prefix}{name}.{one}.bias" in tensors
            ):
                setattr(part, one, nn.Linear(product.in_features, product.out_features))
    found: LlamaDecoderLayer = layer
    return found


def written(config: Any) -> dict[str, Any]:
    """The entries that define a layer, for config.json."""
    theta = rope_theta(config)
    return {
        "model_type": "llama",
        **{key: getattr(config, key) for key in SIZES},
        "rope_theta": theta,  # both spellings: transformers 5 reads the second
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
    }


def rope_theta(config: Any) -> float:
    """The rotary base of a Llama-like configuration, 10,000 where it has none."""
    known = getattr(config, "rope_parameters", None) or {}
    return float(known.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def number(
    name: str, config: Mapping[str, Any], key: str, default: int | None = None, most: int = 1_000_000
) -> int:
    """A positive whole number of the configuration, at most `most`.

    Raises:
        ModelError: if it is missing or something else.
    """
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ModelError(
            f"'{name}' has a damaged configuration: {key} should be a whole number from 1 to {most:,}, got "
            f"{repr(value)[:60]}."
        )
    return value
