"""Tensors of a model's files that its configuration does not describe, and the other way round.

transformers fills missing weights with random numbers and passes over surplus ones: another model would run under the
name. What is passed over here is known to change nothing: tables that are computed anew (masks, angles), a tied matrix
that equals the embedding, and multi-token-prediction modules, with which a target does not compute.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import ModelError

from . import weight_files
from .load_errors import short

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

_ANGLES = re.compile(r"(^|\.)(rotary_emb\.(inv_freq|cos_cached|sin_cached)|position_ids)$")
_MASK = re.compile(r"\.(attn|attention|self_attn)\.(bias|masked_bias|causal_mask)$")
_MODULES = re.compile(r"(^|\.)mtp(_\w+)?\.")  # Qwen's mtp.…, MiMo's mtp_layers.…, ERNIE's mtp_block.…
_LAYER = re.compile(r"(^|\.)layers\.(\d+)\.")
_ANNOUNCED = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")


_IDLE = frozenset(
    """
    auto_map is_llama_config torch_dtype unsloth_fixed unsloth_version use_bfloat16 model_max_length
    quantization_config rope_scaling rope_theta rope_interleaved _attn_implementation _commit_hash
    pad_token bos_token eos_token unk_token unk_token_id sep_token_id cls_token_id mask_token_id
    decoder_start_token_id is_decoder add_cross_attention tie_encoder_decoder prefix pard_token
    tokenizer_class task_specific_params finetuning_task pruned_heads torchscript gradient_checkpointing
    num_labels transformers.js_config
    """.split()
)
"""Entries that some programs write, and that are no part of a computation."""


def unknown_entries(config: PreTrainedConfig) -> list[str]:
    """Entries of a model's config.json with a value that transformers' class for it does not declare."""
    try:
        known = set(type(config)().to_dict()) | set(config.attribute_map)
    except Exception:  # a class that cannot be made without entries
        return []
    announced = {*_IDLE, *_ANNOUNCED}
    return sorted(
        key
        for key, value in config.to_dict().items()
        if value is not None and key not in known | announced and not key.startswith(("specdec_", "_"))
    )


def check(model: PreTrainedModel, info: Mapping[str, Collection[str]], source: str) -> None:
    """Check what transformers found when it read the weights of `source`; `info` is its `output_loading_info`.

    Raises:
        ModelError: naming a tensor that is missing, or one that is in the files and not in the model.
    """
    name = short(source)
    missing = sorted(info["missing_keys"])
    if missing:
        raise ModelError(
            f"The weights of '{name}' do not fit its config.json: {len(missing)} tensors that it describes are "
            f"missing, such as '{missing[0]}'. Fetch or export the model again."
        )
    config = model.config
    surplus = [key for key in sorted(info["unexpected_keys"]) if not _harmless(key, config, source)]
    if surplus:
        raise ModelError(
            f"The weights of '{name}' do not fit its config.json: {len(surplus)} tensors are in the files and it does "
            f"not describe them, such as '{surplus[0]}', so they would be left out of the computation. Correct "
            "config.json, or fetch or export the model again."
        )
    output, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = bool(getattr(config, "tie_word_embeddings", False)) and getattr(model, "_tied_weights_keys", None)
    if (
        tied
        and output is not None
        and output.weight is not embedding.weight
        and not config.is_encoder_decoder
    ):
        raise ModelError(
            f"The weights of '{name}' do not fit its config.json: it ties the output matrix to the embedding "
            "(tie_word_embeddings), and the files have an output matrix (such as 'lm_head.weight') with other numbers. "
            "Correct config.json, or fetch or export the model again."
        )


def _harmless(key: str, config: PreTrainedConfig, source: str) -> bool:
    if _ANGLES.search(key) or _MODULES.search(key):
        return True
    if found := _LAYER.search(key):
        layers = int(config.num_hidden_layers)
        extra = max(_count(config, entry) for entry in _ANNOUNCED)
        if layers <= int(found[2]) < layers + extra:
            return True
    if not _MASK.search(key):
        return False
    stored = weight_files.find(source, key)
    return stored is not None and _mask(stored)


def _count(config: Any, entry: str) -> int:
    found = getattr(config, entry, 0)
    return found if isinstance(found, int) else 0


def _mask(stored: Tensor) -> bool:
    """Whether a tensor is a table of a mask, (…, n, n) of zeros and ones, or the number that stands for what is masked:
    nothing that was trained."""
    if stored.numel() == 1:
        return True
    if stored.dim() < 2 or stored.shape[-1] != stored.shape[-2] or stored.numel() != stored.shape[-1] ** 2:
        return False
    return bool(((stored == 0) | (stored == 1)).all())
