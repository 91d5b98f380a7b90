"""Checks at loading: a tree read in one pass equals its paths, and windows are those of the model itself."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.foundations.errors import ModelError
from specdec_core.tree import TokenTree

from .reader import CausalReader, Reader
from .windows import FULL

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_log = logging.getLogger(__name__)


def self_check(reader: Reader, name: str) -> None:
    """Check the premise of this program: a tree read in one pass equals its paths read one by one.

    Raises:
        ModelError: if the logits differ by more than rounding, as with attention that ignores a given mask, or if the
            model cannot take the mask at all.
    """
    tokens = [token % reader.vocabulary for token in range(1, 9)]
    prefix, root = tokens[:3], tokens[3]
    tree = TokenTree(tokens[4:], [-1, -1, 0, 1])
    paths = [tree.path(leaf) for leaf in (2, 3)]
    try:
        reader.prefill(prefix)
        together = reader.read(root, tree)
        alone = [reader.read(root, TokenTree.chain([tree.tokens[node] for node in path])) for path in paths]
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # architecture-specific code: some accept only two-dimensional masks
        raise ModelError(
            f"'{name}' cannot read a token tree: its attention fails with the mask it is given "
            f"({type(error).__name__}). Choose another architecture."
        ) from error
    exact = next(iter(_weights(reader)), torch.float32) == torch.float32
    tolerance = (1e-3 if exact else 0.1) * max(1.0, float(together.abs().max()))
    for path, logits in zip(paths, alone, strict=True):
        difference = float((together[[0, *(node + 1 for node in path)]] - logits).abs().max())
        if not difference <= tolerance:
            raise ModelError(
                f"'{name}' reads a token tree differently from its branches (logits differ by {difference:.2g}), so "
                "guesses could not be checked in one pass. Choose another architecture."
            )


@torch.inference_mode()
def window_check(model: PreTrainedModel | None, name: str) -> None:
    """Check that masks with windows make a model with short ones compute what it does by itself.

    Args:
        model: from `skeleton`.

    Raises:
        ModelError: if the logits differ by more than rounding, or there is no such small model.
    """
    difference = float("inf")
    if model is not None:
        tokens = list(range(1, 15))
        try:
            expected = model(torch.tensor([tokens], device=model.device), use_cache=False).logits[0, 6:]
            reader = CausalReader(model, 16)
            reader.prefill(tokens[:6])
            found = reader.read(tokens[6], TokenTree.chain(tokens[7:]))
            difference = float((found - expected).abs().max() / expected.abs().max().clamp_min(1.0))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # architecture-specific code, as in `self_check`
            _log.warning("%s: its windows could not be checked (%s).", name, error)
    if not difference <= 1e-3:
        raise ModelError(
            f"'{name}' has layers that see only part of the text, in a way that is not known here, so it would not be "
            "read exactly. Choose a model with full attention in every layer."
        )


def skeleton(kind: type[PreTrainedModel], config: Any, device: torch.device) -> PreTrainedModel | None:
    """Two layers of the same architecture with random float32 weights, few tokens, short windows and few experts, small
    on any device.

    `self_check` can test it to float32 rounding, where 16 bits would hide a slightly wrong attention. None where
    the configuration cannot be cut down, which is no reason to refuse it.
    """
    config = copy.deepcopy(config)
    layers = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or [FULL]
    kept = [
        0,
        next((at for at, kind in enumerate(kinds) if kind != kinds[0]), 1),
    ]  # two kinds, where there are
    try:
        for name, value in vars(config).items():
            if isinstance(value, list) and len(value) == layers:  # one entry per layer
                setattr(config, name, [value[at] for at in kept[:layers]])
        sizes = {"num_hidden_layers": 2, "num_decoder_layers": 2, "vocab_size": 64, "intermediate_size": 64}
        sizes |= {"sliding_window": 4, "attention_chunk_size": 4}
        sizes |= {
            "num_experts": 4,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
        }
        for name, size in sizes.items():
            if getattr(config, name, None):
                setattr(config, name, min(size, getattr(config, name)))
        config.pad_token_id = None
        # Random weights, the same for each check, without touching the caller's random state.
        with torch.random.fork_rng([device] if device.type == "cuda" else []), device:
            torch.manual_seed(0)
            small: PreTrainedModel = kind._from_config(config, dtype=torch.float32).eval()
    except Exception:
        return None
    return small


def _weights(reader: Reader) -> list[torch.dtype]:
    return [reader.model.dtype] if isinstance(reader, CausalReader) else []
