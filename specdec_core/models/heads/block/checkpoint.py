"""Reading and writing block heads as their makers do: z-lab's DFlash, DeepSpec's DSpark, speculators' both.

All name the weights `fc`, `hidden_norm`, `layers.…`, `norm`, and `markov_head.…`, `confidence_head.proj`. z-lab and
DeepSpec count the layers that are read by what they return, speculators by what they read, one more for the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from specdec_core.foundations.errors import ModelError
from specdec_core.models.heads.layouts import files, shapes
from specdec_core.models.heads.layouts.contents import NOT_GUESSED_WITH, ConfigEntries, Contents
from specdec_core.models.heads.target import Target, filled, own_copy
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.runtime.architectures.llama import ROPE_TYPES

from .head import BlockHead, BlockShape
from .inner import INNER

FILE = "model.safetensors"
EMBEDDING, OUTPUT, MARKOV = "embed_tokens.weight", "lm_head.weight", "markov_head.markov_w1.weight"
CONFIDENCE = "confidence_head.proj.weight"
SLOTS = "specdec_slots"
MOST_LAYERS, MOST_ROWS = 64, 256
Layout = Literal["dflash", "dspark", "speculators"]
_ONE: dict[str, tuple[Any, ...]] = {
    "input_embedding_scale": (1, 1.0),
    "output_multiplier": (1, 1.0),
    "final_logit_softcapping": (0, 0.0),
    "projector_type": ("dflash", "dspark"),
    "sliding_window_non_causal": (False,),
}
"""Entries that change what is computed, unless they have one of these values."""
_NOT_GUESSED_BY = ("num_anchors", "draft_vocab_size")


def read(source: str, target: Target) -> BlockHead:
    """Load a head for a target.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, or made for another target, or hold
            something that is not computed here.
    """
    contents = files.read(source, "block")
    name, config = contents.name, contents.config
    contents.skip(*NOT_GUESSED_WITH)
    inner = config.inner("dflash_config")
    for key, usual in _ONE.items():
        for entries in (config, inner):
            if entries.get(key) not in (None, *usual):
                raise shapes.unsupported(name, key, entries[key])
    for key in _NOT_GUESSED_BY:
        config.get(key)
    shape = shapes.layer_config(contents, target.vocabulary)
    _check_layers(contents, shape)
    width = int(shape.hidden_size)
    if (stated := config.get("num_target_layers")) not in (None, target.layers):
        raise ModelError(
            f"'{name}' does not fit this target: 'num_target_layers' in its config.json is {stated!r}, and the target "
            f"has {target.layers}. Load the head that was trained for it."
        )
    if (stated := config.get("target_hidden_size")) not in (None, target.width):
        raise ModelError(
            f"'{name}' does not fit this target: 'target_hidden_size' in its config.json is {stated!r}, and the "
            f"target's is {target.width:,}. Load the head that was trained for it."
        )
    ids = draft_vocabulary.read(name, contents, target.vocabulary)
    block = _block(contents, inner, target)
    embedding, output = (
        own_copy(contents, EMBEDDING, target.embedding),
        own_copy(contents, OUTPUT, target.output),
    )
    if ids is not None and OUTPUT in contents and target.output is not None:
        output = not torch.equal(contents[OUTPUT], target.output[ids].to(contents[OUTPUT]))
    if not embedding:
        target.check_embeds(name, width)

    def made() -> BlockHead:
        return BlockHead(
            shape, block, len(block.layers) * target.width, ids, embedding, output, contents, _slots(config)
        )

    head: BlockHead = filled(contents, "block head", made)
    contents.finish()
    return head


def write(
    folder: Path,
    head: BlockHead,
    target: str,
    notes: Mapping[str, Any],
    dtype: torch.dtype = torch.float16,
    layout: Layout = "dspark",
    target_layers: int | None = None,
) -> None:
    """Write a head in one of the published layouts; `notes` are further entries of config.json, `target` the model's
    name, `target_layers` how many it has.

    Raises:
        ValueError: if the layout has no place for what the head is.
    """
    block = head.block
    if layout == "dflash" and (block.from_anchor or block.inner or head.vocabulary is not None):
        raise ValueError(
            "z-lab's layout has no inner head, no draft vocabulary and no guess by the last token's row."
        )
    config = _entries(head, layout)
    if target_layers is not None and layout != "speculators":
        config["num_target_layers"] = target_layers
    if block.causal:
        config["is_causal"] = True
    if layout != "dflash":
        config |= {
            "markov_rank": block.rank,
            **({"markov_head_type": block.inner} if block.inner else {}),
            "enable_confidence_head": block.confidence,
            **({"confidence_head_with_markov": not block.confidence_alone} if block.confidence else {}),
        }
    slots = {} if head.slots is None else {SLOTS: head.slots}
    config |= {"tie_word_embeddings": False, "base_model_name_or_path": target, **slots, **notes}
    files.write(folder, config, head.state_dict(), FILE, dtype)


def _entries(head: BlockHead, layout: Layout) -> dict[str, Any]:
    """Where a layout has the sizes of the layers and the block."""
    block, sizes = head.block, shapes.written(head.config) | {"model_type": "qwen3"}
    returned = [layer - 1 for layer in block.layers]
    if layout == "dflash":
        inner = {"target_layer_ids": returned, "mask_token_id": block.mask}
        return sizes | {
            "architectures": ["DFlashDraftModel"],
            "block_size": block.size,
            "dflash_config": inner,
        }
    common = {"block_size": block.size, "mask_token_id": block.mask}
    if layout == "dspark":
        return {
            "architectures": ["Qwen3DSparkModel"],
            **sizes,
            **common,
            "target_layer_ids": returned,
            "num_anchors": 512,
            "sample_from_anchor": block.from_anchor,
        }
    return {
        "architectures": ["DSparkSpeculator" if block.inner else "DFlashSpeculator"],
        "speculators_model_type": "dspark" if block.inner else "dflash",
        "speculators_version": "0.9.0",
        "transformer_layer_config": sizes,
        "draft_vocab_size": sizes["vocab_size"] if head.vocabulary is None else len(head.vocabulary),
        **common,
        "aux_hidden_state_layer_ids": list(block.layers),
        "sample_from_anchor": block.from_anchor,
    }


def _check_layers(contents: Contents, shape: Any) -> None:
    """Set the number of layers to that in the file, and refuse another one, or angles that depend on the length."""
    name = contents.name
    found = {
        int(part) for key in contents if key.startswith("layers.") and (part := key.split(".")[1]).isdigit()
    }
    count = len(found)
    stated = shapes.layer_entries(contents).get("num_hidden_layers", count)
    if found != set(range(count)) or not 1 <= count <= MOST_LAYERS or stated != count:
        raise ModelError(
            f"'{name}' holds no complete block head: 'num_hidden_layers' is {repr(stated)[:60]} in its config.json, "
            f"and its file has {count}. Export it again."
        )
    shape.num_hidden_layers = count
    rope = getattr(shape, "rope_parameters", None) or {}
    if (turned := rope.get("rope_type", "default")) not in ROPE_TYPES:
        raise shapes.unsupported(name, "rope_parameters.rope_type", turned)


def _block(contents: Contents, inner: ConfigEntries, target: Target) -> BlockShape:
    """What the configuration says of the block."""
    name, config = contents.name, contents.config

    def entry(key: str) -> Any:
        return inner[key] if key in inner else config.get(key)

    size, mask = entry("block_size"), entry("mask_token_id")
    if not _whole(size, 2, MOST_ROWS) or not _whole(mask, 0, target.vocabulary - 1):
        key, value = ("block_size", size) if not _whole(size, 2, MOST_ROWS) else ("mask_token_id", mask)
        raise ModelError(
            f"'{name}' has a damaged configuration: '{key}' is {repr(value)[:60]}; a block has 2 to {MOST_ROWS} rows, "
            f"and its mask token is one of the target's {target.vocabulary:,}."
        )
    spark = MARKOV in contents or CONFIDENCE in contents or contents.maker == "DeepSpec"
    anchored = config.get("sample_from_anchor")
    rank, kind = config.get("markov_rank") or 0, config.get("markov_head_type") or "vanilla"
    if MARKOV in contents and (kind not in INNER or rank != contents.shape(MARKOV)[-1]):
        raise shapes.unsupported(name, "markov_head_type", kind)
    if (rank > 0) != (MARKOV in contents):
        raise ModelError(
            f"'{name}' holds no complete block head: 'markov_rank' is {rank} in its config.json, and '{MARKOV}' is "
            f"{'' if MARKOV in contents else 'not '}in its file. Export it again."
        )
    with_markov, enabled = config.get("confidence_head_with_markov"), config.get("enable_confidence_head")
    if enabled is True and CONFIDENCE not in contents:
        raise ModelError(
            f"'{name}' holds no complete block head: '{CONFIDENCE}' is missing. Export it again."
        )
    return BlockShape(
        _layers(contents, inner, target.layers),
        size,
        mask,
        spark if anchored is None else anchored is True,
        entry("is_causal") is True,
        kind if MARKOV in contents else "",
        rank,
        CONFIDENCE in contents,
        CONFIDENCE in contents and (with_markov is False or MARKOV not in contents),
    )


def _layers(contents: Contents, inner: ConfigEntries, count: int) -> tuple[int, ...]:
    """The layers whose inputs are read: state i is what layer i reads, state `count` what the last one returns."""
    config = contents.config
    counted = config.get("aux_hidden_state_layer_ids")
    given = counted if counted is not None else inner.get("target_layer_ids", config.get("target_layer_ids"))
    shift = 0 if counted is not None else 1
    usable = isinstance(given, list) and 1 <= len(given) <= MOST_LAYERS
    # their n − 1 is what the last layer returns after the final norm, which is not read here
    if not usable or not all(_whole(one, -shift, count - 2 * shift) for one in given):
        raise ModelError(
            f"'{contents.name}' does not fit this target: its config.json reads the layers {repr(given)[:60]}, and the "
            f"target has {count}. Load the head that was trained for it."
        )
    return tuple(one + shift for one in given)


def _slots(config: Mapping[str, Any]) -> list[float] | None:
    shares = config.get(SLOTS)
    usable = isinstance(shares, list) and all(isinstance(share, int | float) for share in shares)
    return [float(share) for share in shares] if usable and isinstance(shares, list) else None


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
