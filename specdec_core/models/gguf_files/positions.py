"""How a GGUF file turns its positions: entries `rope.…` and the factors that it keeps as tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec_core.foundations.errors import ModelError

from .header import GgufHeader, unpack

if TYPE_CHECKING:
    from .config import GgufEntries

FREQUENCIES = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
# what Llama 3.1 and 3.2 divide frequencies by, but for the largest divisor: Meta's own numbers
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def positions(
    entries: GgufEntries, header: GgufHeader, width: int, context: int
) -> tuple[dict[str, Any], frozenset[str]]:
    """The `rope_parameters` of transformers for heads of this width, and the tensors they were made from.

    Raises:
        ModelError: naming an entry or a tensor that transformers cannot follow.
    """
    theta = float(entries.get("rope.freq_base", 10_000.0))
    turned = int(entries.get("rope.dimension_count", width))
    kind = entries.get("rope.scaling.type", "linear")
    factor = entries.get("rope.scaling.factor") or entries.get("rope.scale_linear") or 1.0
    entries.get("rope.scale_linear")  # an older name of the same; llama.cpp prefers the newer one
    louder = float(entries.get("rope.scaling.attn_factor") or 1.0)
    original = int(entries.get("rope.scaling.original_context_length") or context)
    tensors = {
        name: _factors(header, name, turned) for name in (FREQUENCIES, LONG, SHORT) if name in header.names
    }
    found: dict[str, Any] = {"rope_theta": theta}
    if turned != width:
        found["partial_rotary_factor"] = turned / width
    if kind == "none":
        factor = 1.0
    if kind == "yarn":
        return found | _yarn(entries, header, tensors, factor, louder, original), frozenset()
    if kind not in ("linear", "none", "longrope"):
        entries.refuse("rope.scaling.type")
    if LONG in tensors or SHORT in tensors or kind == "longrope":
        given = _longrope(entries, tensors, factor)
        return found | _factored(*given, louder, original, context), frozenset(tensors)
    if FREQUENCIES in tensors:
        return found | _divided(tensors[FREQUENCIES], theta, factor, louder, context), frozenset(tensors)
    if louder != 1.0:
        whole = np.full(turned // 2, factor)
        return found | _factored(whole, whole, louder, context, context), frozenset()
    return found | (
        {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}
    ), frozenset()


def _factors(header: GgufHeader, name: str, turned: int) -> np.ndarray:
    found = unpack(next(stored for stored in header.tensors if stored.name == name)).reshape(-1)
    if len(found) != turned // 2 or not np.isfinite(found).all() or (found <= 0).any():
        raise ModelError(
            f"'{header.path.name}' has a tensor '{name}' that does not fit its heads: {turned // 2} positive numbers "
            f"were expected, and it has {len(found)}. Fetch it again, or choose another file."
        )
    return found.astype(np.float64)


def _yarn(
    entries: GgufEntries,
    header: GgufHeader,
    tensors: dict[str, np.ndarray],
    factor: float,
    louder: float,
    original: int,
) -> dict[str, Any]:
    if tensors:
        raise ModelError(
            f"'{header.path.name}' scales its positions by YaRN and by the tensor '{next(iter(tensors))}' as well, "
            "which is not computed here. Choose another file, or the model's safetensors."
        )
    for key in ("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"):
        entries.expect(key, 1.0)
    found = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    for key in ("beta_fast", "beta_slow"):
        if (value := entries.get(f"rope.scaling.yarn_{key}")) is not None:
            found[key] = value
    # llama.cpp multiplies YaRN's own factor by the file's
    return found | ({} if louder == 1.0 else {"attention_factor": louder * (1 + 0.1 * math.log(factor))})


def _longrope(
    entries: GgufEntries, tensors: dict[str, np.ndarray], factor: float
) -> tuple[np.ndarray, np.ndarray]:
    if LONG not in tensors or SHORT not in tensors or FREQUENCIES in tensors:
        names = " and ".join(f"'{name}'" for name in (LONG, SHORT))
        raise ModelError(
            f"'{entries.name}' scales its positions by LongRoPE, which needs the tensors {names} and no "
            f"'{FREQUENCIES}'; it has {', '.join(tensors) or 'none of them'}. Choose another file."
        )
    if factor != 1.0:
        entries.refuse("rope.scaling.factor", "is not computed together with LongRoPE's factors")
    return tensors[SHORT], tensors[LONG]


def _divided(factors: np.ndarray, theta: float, factor: float, louder: float, context: int) -> dict[str, Any]:
    """Frequencies divided by factors: Llama 3's rule if they are its own, else as they are given."""
    whole = factors * factor
    largest = float(whole.max())
    if louder == 1.0 and np.allclose(whole, _llama3(len(whole), theta, largest), rtol=1e-5):
        return {"rope_type": "llama3", "factor": largest, **_LLAMA3}
    return _factored(whole, whole, louder, context, context)


def _llama3(half: int, theta: float, factor: float) -> np.ndarray:
    """What Llama 3 divides each frequency by."""
    low, high, original = (float(value) for value in _LLAMA3.values())
    lengths = 2 * math.pi * theta ** (np.arange(half) / half)
    share = np.clip((original / lengths - low) / (high - low), 0, 1)
    return 1 / ((1 - share) / factor + share)


def _factored(
    short: np.ndarray, long: np.ndarray, louder: float, original: int, context: int
) -> dict[str, Any]:
    """transformers' LongRoPE: any factors, one for each frequency, and one for the length of the vectors."""
    return {
        "rope_type": "longrope",
        "short_factor": [float(value) for value in short],
        "long_factor": [float(value) for value in long],
        "original_max_position_embeddings": original,
        "attention_factor": louder,
        "factor": max(1.0, context / original),
    }
