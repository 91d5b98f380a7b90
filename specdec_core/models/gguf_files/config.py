"""A GGUF file's metadata as a configuration of transformers.

Every entry of the file's architecture is used, or known to change nothing, or named in a refusal: an entry that is
passed over could make another model of the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from specdec_core.foundations.errors import ModelError

from .header import GgufHeader
from .kinds import BLOCK, NEXTN
from .positions import positions

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

EPSILON, LAYER_EPSILON = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
# entries that change nothing when they have this value, whatever the architecture
_NEUTRAL: dict[str, Any] = {
    "expert_count": 0,
    "expert_used_count": 0,
    "expert_shared_count": 0,
    "leading_dense_block_count": 0,
    "attention.causal": True,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.sliding_window": 0,
    "attn_logit_softcapping": 0.0,
    "final_logit_softcapping": 0.0,
    "expert_weights_scale": 1.0,
    "embedding_scale": 1.0,
    "residual_scale": 1.0,
    "logit_scale": 1.0,
    "pooling_type": 0,
    "use_parallel_residual": False,
}
_NOTES = ("rope.scaling.finetuned", "tensor_data_layout")  # nothing is computed with them
_SIZES = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
_TOKENS = {
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "padding_token_id": "pad_token_id",
    "unknown_token_id": "unk_token_id",
}


class GgufEntries:
    """The entries of a file's architecture, which remember what was read.

    Raises:
        ModelError: by each method, naming the entry.
    """

    def __init__(self, header: GgufHeader) -> None:
        self.header, self.name = header, header.path.name
        self._prefix = f"{header.architecture}."
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """An entry, `default` without it; an array of equal values, one for each layer, as that value."""
        self._read.add(key)
        found = self.header.facts.get(self._prefix + key, default)
        if isinstance(found, list) and found and all(one == found[0] for one in found):
            return found[0]
        return found

    def need(self, key: str) -> Any:
        """An entry without which the model is not known."""
        found = self.get(key)
        if found is None:
            raise ModelError(
                f"'{self.name}' has no entry '{self._prefix}{key}', which a model of its architecture needs. Choose "
                "another file."
            )
        if isinstance(found, list | str | bool):
            self.refuse(key)
        return found

    def refuse(
        self, key: str, why: str = "is not computed here, and without it this would be another model"
    ) -> NoReturn:
        """Refuse an entry."""
        found = str(self.header.facts.get(self._prefix + key))
        value = found if len(found) <= 40 else found[:40] + "…"
        raise ModelError(
            f"'{self.name}' has the entry '{self._prefix}{key}' ({value}), which {why}. Choose another file, or the "
            "model's safetensors."
        )

    def expect(self, key: str, value: Any) -> None:
        """Refuse an entry with another value than this one, to which it is redundant."""
        found = self.get(key, value)
        same = math.isclose(found, value, rel_tol=1e-5) if isinstance(found, float) else found == value
        if not same:
            self.refuse(key, f"is read only as {value}")

    def check_all_read(self) -> None:
        """Refuse the first entry that nothing has read."""
        for whole, value in self.header.facts.items():
            key = whole.removeprefix(self._prefix)
            if not whole.startswith(self._prefix) or key in self._read or key in _NOTES:
                continue
            if key not in _NEUTRAL or value != _NEUTRAL[key]:
                self.refuse(key)


Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GgufKind:
    """How an architecture of llama.cpp's files is described to transformers.

    `sizes` are further entries that must be there, by their names in the configuration; `fixed` is what the
    architecture means by itself; `more` adds what takes a rule.
    """

    model_type: str
    sizes: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    epsilon: tuple[str, str] = (EPSILON, "rms_norm_eps")
    more: Callable[[GgufEntries, Values], None] | None = None
    rotary: bool = True


def _llama(entries: GgufEntries, values: Values) -> None:
    entries.expect("attention.scale", values["head_dim"] ** -0.5)
    if window := entries.get("attention.sliding_window"):
        values |= {"model_type": "mistral", "sliding_window": window}


def _gemma2(entries: GgufEntries, values: Values) -> None:
    """llama.cpp does not write what queries are scaled by: the 27B model's is its width by heads."""
    _gemma(entries, values, largest=46, pattern=2)
    values["attn_logit_softcapping"] = entries.get("attn_logit_softcapping") or None


def _gemma3(entries: GgufEntries, values: Values) -> None:
    _gemma(entries, values, largest=62, pattern=6)
    scaled = values.pop("rope_parameters")
    local = {"rope_type": "default", "rope_theta": entries.get("rope.freq_base_swa", 10_000.0)}
    values["rope_parameters"] = {"full_attention": scaled, "sliding_attention": local}


def _gemma(entries: GgufEntries, values: Values, largest: int, pattern: int) -> None:
    layers, heads = values["num_hidden_layers"], values["num_attention_heads"]
    scale = values["hidden_size"] // heads if layers == largest else values["head_dim"]
    entries.expect("attention.scale", scale**-0.5)
    every = entries.get("attention.sliding_window_pattern", pattern)
    if isinstance(every, list) and len(every) == layers:
        slides = [bool(one) for one in every]
    elif isinstance(every, int) and every > 1:  # a bool is one, too: all layers alike
        slides = [at % every < every - 1 for at in range(layers)]
    else:
        entries.refuse("attention.sliding_window_pattern")
    for key in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        entries.expect(key, values["head_dim"])
    values |= {
        "query_pre_attn_scalar": scale,
        "sliding_window": entries.need("attention.sliding_window"),
        "final_logit_softcapping": entries.get("final_logit_softcapping") or None,
        "layer_types": ["sliding_attention" if one else "full_attention" for one in slides],
    }


def _experts(entries: GgufEntries, values: Values) -> None:
    entries.expect("expert_gating_func", 1)  # softmax
    entries.expect("expert_weights_norm", bool(values.get("norm_topk_prob")))


def _phi3(entries: GgufEntries, values: Values) -> None:
    window = entries.get("attention.sliding_window")
    values["sliding_window"] = window if window else None


def _granite(entries: GgufEntries, values: Values) -> None:
    values |= {
        "attention_multiplier": entries.get("attention.scale") or values["head_dim"] ** -0.5,
        "embedding_multiplier": entries.get("embedding_scale") or 1.0,
        "residual_multiplier": entries.get("residual_scale") or 1.0,
        "logits_scaling": entries.get("logit_scale") or 1.0,
    }


def _gpt2(entries: GgufEntries, values: Values) -> None:
    entries.expect("attention.head_count_kv", values["num_attention_heads"])
    for key in ("num_key_value_heads", "head_dim"):
        values.pop(key)
    values |= {
        "n_positions": values.pop("max_position_embeddings"),
        "n_inner": values.pop("intermediate_size"),
    }


_EXPERTS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_GELU = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
KINDS = {
    "llama": GgufKind("llama", more=_llama),
    "qwen2": GgufKind("qwen2"),
    "qwen3": GgufKind("qwen3"),
    "qwen2moe": GgufKind(
        "qwen2_moe",
        {**_EXPERTS, "expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        more=_experts,
    ),
    "qwen3moe": GgufKind("qwen3_moe", _EXPERTS, {"norm_topk_prob": True}, more=_experts),
    "gemma": GgufKind("gemma", fixed=_GELU),
    "gemma2": GgufKind("gemma2", fixed=_GELU, more=_gemma2),
    "gemma3": GgufKind("gemma3_text", fixed=_GELU, more=_gemma3),
    "granite": GgufKind("granite", more=_granite),
    "olmo2": GgufKind("olmo2"),
    "phi3": GgufKind("phi3", more=_phi3),
    "smollm3": GgufKind("smollm3", fixed={"no_rope_layer_interval": 4}),
    "starcoder2": GgufKind("starcoder2", epsilon=(LAYER_EPSILON, "norm_epsilon")),
    "gpt2": GgufKind("gpt2", epsilon=(LAYER_EPSILON, "layer_norm_epsilon"), more=_gpt2, rotary=False),
}
_BIASES = {
    "attention_bias": ("attn_q", "attn_k", "attn_v", "attn_output"),
    "mlp_bias": ("ffn_gate", "ffn_up", "ffn_down"),
}
FOLLOWING = {
    "llama",
    "granite",
    "smollm3",
}  # rotary pairs are neighbours in their files, halves in transformers


def config(header: GgufHeader) -> tuple[PreTrainedConfig, frozenset[str]]:
    """The configuration of a file's model, and the tensors that it uses up, such as factors of the positions, or that
    are not part of the target, such as multi-token-prediction modules.

    Raises:
        ModelError: naming the entry or tensor that is not computed.
    """
    from transformers import AutoConfig

    kind, entries = KINDS[header.architecture], GgufEntries(header)
    values, used = _values(kind, entries, header)
    entries.check_all_read()
    made: PreTrainedConfig = AutoConfig.for_model(**values)
    for entry, stems in _BIASES.items():
        if hasattr(made, entry):
            setattr(made, entry, _biased(header.names, stems, values["num_hidden_layers"]))
    return made, used


def _biased(names: frozenset[str], stems: tuple[str, ...], layers: int) -> bool:
    """Whether the file has biases of these parts, each of them in every layer."""
    counts = [sum(f"blk.{at}.{stem}.bias" in names for at in range(layers)) for stem in stems]
    return any(counts) and set(counts) <= {0, layers}


def _values(kind: GgufKind, entries: GgufEntries, header: GgufHeader) -> tuple[Values, frozenset[str]]:
    values: Values = {"model_type": kind.model_type, **kind.fixed}
    layers, apart = _layers(entries, header)
    values["num_hidden_layers"] = layers
    values |= {name: entries.need(key) for key, name in (*_SIZES.items(), *kind.sizes.items())}
    values[kind.epsilon[1]] = entries.need(kind.epsilon[0])
    heads = values["num_attention_heads"]
    values["num_key_value_heads"] = shared = entries.get("attention.head_count_kv", heads)
    if isinstance(shared, list):
        entries.refuse("attention.head_count_kv", "differs between layers, which is not read here")
    values["head_dim"] = width = entries.get("attention.key_length", values["hidden_size"] // heads)
    entries.expect("attention.value_length", width)
    used: frozenset[str] = frozenset()
    if kind.rotary:
        values["rope_parameters"], used = positions(entries, header, width, values["max_position_embeddings"])
        if (share := values["rope_parameters"].pop("partial_rotary_factor", 1.0)) != 1.0:
            if kind.model_type not in ("phi3",):
                entries.refuse("rope.dimension_count", f"is read only as the width of a head, {width}")
            values["rope_parameters"]["partial_rotary_factor"] = share
    if kind.more is not None:
        kind.more(entries, values)
    rows = next((stored.shape[0] for stored in header.tensors if stored.name == "token_embd.weight"), 0)
    tokens = header.facts.get("tokenizer.ggml.tokens", 0)
    if rows == 0 or tokens > rows:
        raise ModelError(
            f"'{entries.name}' has {tokens:,} tokens and embeddings ('token_embd.weight') of {rows:,}. Fetch it again, "
            "or choose another file."
        )
    entries.expect("vocab_size", rows)
    values |= {"vocab_size": rows, "tie_word_embeddings": "output.weight" not in header.names}
    for key, name in _TOKENS.items():
        values[name] = header.facts.get(f"tokenizer.ggml.{key}")
    return values, used | apart


def _layers(entries: GgufEntries, header: GgufHeader) -> tuple[int, frozenset[str]]:
    """How many layers the model has, and the tensors of multi-token-prediction modules behind them, which a target
    computes without: llama.cpp counts them as blocks, and `nextn_predict_layers` says how many of those they are."""
    count, extra = int(entries.need("block_count")), entries.get("nextn_predict_layers", 0)
    modules = {int(at[1]) for name in header.names if (at := NEXTN.match(name))}
    if modules:
        count = min(count, *modules)
        if sorted(modules) != list(range(count, count + len(modules))):
            raise ModelError(
                f"'{entries.name}' has multi-token-prediction modules (such as 'blk.{min(modules)}.nextn…') between "
                "the model's own layers, which is not read here. Choose another file."
            )
    elif extra and f"blk.{count - 1}.attn_norm.weight" not in header.names:
        count -= int(extra)
    apart = {name for name in header.names if (at := BLOCK.match(name)) and int(at[1]) in modules}
    return count, frozenset(apart)
