"""Files of trained heads: a config.json beside safetensors, in a folder or on the hub. Pickles are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec_core.errors import ModelError
from specdec_core.models import hub


def read(source: str, kind: str, weights: Sequence[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors (on the CPU, as stored) of a folder or hub id.

    Args:
        source: folder or hub id.
        kind: what error messages call the heads, e.g. "Medusa heads".
        weights: file names to look for; the first one found is used.

    Raises:
        ModelError: with one sentence, if something is missing, a pickle, or damaged.
    """
    name = short(source)
    hub.check_present(source)
    config_file = hub.find_file(source, ["config.json"])
    if config_file is None:
        raise ModelError(f"'{name}' holds no {kind}: it has no config.json. Choose another folder or hub id.")
    try:
        config = json.loads(config_file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not JSON.") from None
    if not isinstance(config, dict):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not an object.")
    file = hub.find_file(source, weights)
    if file is None:
        raise ModelError(
            f"'{name}' has no {kind} in safetensors ({' or '.join(weights)}); pickled ones (.pt, .bin) can run code "
            "when read and are refused. Convert a file you trust once: safetensors.torch.save_file(torch.load(FILE, "
            f"weights_only=True), '{weights[0]}')."
        )
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError):
        raise ModelError(
            f"'{name}' has damaged weights: {file.name} is not a whole safetensors file."
        ) from None
    broken = next((key for key, tensor in tensors.items() if not torch.isfinite(tensor).all()), None)
    if broken is not None:
        raise ModelError(
            f"'{name}' has damaged weights: '{broken}' holds numbers that are not finite. Train or fetch it again."
        )
    return config, tensors


def write(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], file: str, dtype: torch.dtype
) -> None:
    """Write config.json and the tensors, converted to `dtype`, into `folder`.

    Raises:
        ValueError: if a weight is not finite in `dtype`.
    """
    stored = {
        name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
        for name, tensor in tensors.items()
    }
    broken = next((name for name, tensor in stored.items() if not torch.isfinite(tensor).all()), None)
    if broken is not None:
        raise ValueError(
            f"Weight {broken} does not fit into {str(dtype).removeprefix('torch.')}: the run diverged."
        )
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / file, metadata={"format": "pt"})
    (folder / file).chmod(0o644)  # safetensors writes files only their owner can read
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")


def fitting(name: str, what: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a tensor whose shape does not fit the target.

    Raises:
        ModelError: naming both shapes.
    """
    if tuple(tensor.shape) != shape:
        raise ModelError(
            f"'{name}' does not fit this target: {what} is {_times(tensor.shape)} and the target asks for "
            f"{_times(shape)}. Load the heads that were trained for it."
        )


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


def short(source: str) -> str:
    """A source's name in messages: a hub id as it is, a folder's last part."""
    return Path(source).name if Path(source).is_absolute() or Path(source).is_dir() else source


def _times(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape)
