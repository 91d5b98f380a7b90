"""Reading and writing heads: a config.json beside safetensors, whole or in shards, in a folder or on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specdec_core.foundations.errors import ModelError
from specdec_core.models.files import hub

from .contents import Contents
from .kinds import NOT_RUN, TITLES, maker, of_modules, recognise

WEIGHTS = {
    "medusa": ("medusa_lm_head.safetensors", "model.safetensors"),
    "eagle": ("model.safetensors",),
    "eagle3": ("model.safetensors",),
    "mtp": ("mtp.safetensors", "model.safetensors"),
    "block": ("model.safetensors",),
}
"""The files of each kind; the first one found is used, before numbered ones with an index."""
INDEX = "model.safetensors.index.json"
PACKED = (".qweight", ".weight_packed", ".SCB", ".absmax", ".weight_scale", ".weight_scale_inv")
"""Ends of the names of tensors that only quantised weights have (AWQ, GPTQ, compressed-tensors, bitsandbytes, fp8)."""


def read(source: str, kind: str) -> Contents:
    """What a folder or hub id holds; its tensors are read when they are asked for.

    Args:
        source: folder or hub id.
        kind: of heads, a key of `TITLES`.

    Raises:
        ModelError: with one sentence, if something is missing, damaged, a pickle, or of another kind.
    """
    name, title = short(source), TITLES[kind].removeprefix("an ").removeprefix("a ")
    hub.check_present(source)
    config = read_config(source, title)
    tried = (weights(source, one) for one in (kind, *WEIGHTS))
    places, targets = next((one for one in tried if one is not None), (None, False))
    if places is None:
        raise ModelError(_without_weights(source, name, title, list(WEIGHTS[kind])))
    packed = next((key for key in sorted(places) if key.endswith(PACKED)), None)
    if packed is not None:
        raise ModelError(
            f"'{name}' has quantised weights, such as '{packed}', which are not read here in heads. Choose one whose "
            "weights are in float32, float16 or bfloat16."
        )
    found = recognise(config, places)
    if found is not None and found.name in NOT_RUN:
        raise ModelError(
            f"'{name}' holds {found.title} (it has '{found.sign}'), a kind that is not run here. Choose Medusa, EAGLE "
            "or EAGLE-3 heads, MTP modules, or a DFlash or DSpark head."
        )
    if found is not None and found.loads_as != kind:
        raise ModelError(f"'{name}' holds {found.title}; load it as {found.loads_as}=….")
    return Contents(name, config, places, maker(config), targets)


def read_config(source: str, title: str) -> dict[str, Any]:
    """The entries of the config.json of a folder or hub id; `title` names what it should hold.

    Raises:
        ModelError: if there is none, or it is no JSON object.
    """
    name, file = short(source), hub.find_file(source, ["config.json"])
    if file is None:
        raise ModelError(
            f"'{name}' holds no {title}: it has no config.json. Choose another folder or hub id."
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not JSON.") from None
    if not isinstance(config, dict):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not an object.")
    return config


def weights(source: str, kind: str) -> tuple[dict[str, Path], bool] | None:
    """The file of every tensor of a folder or hub id, by the tensor's name, and whether those of a whole target are
    left out; None where it has no safetensors.

    Raises:
        ModelError: if a file is damaged, or the index names one that is missing.
    """
    name, file = short(source), hub.find_file(source, [*WEIGHTS[kind], INDEX])
    if file is None:
        return None
    indexed = file.name == INDEX
    listed = _shards(name, file) if indexed else dict.fromkeys(_names(name, file), file.name)
    wanted = of_modules(listed) if kind == "mtp" else set(listed)
    found = {shard: hub.find_file(source, [shard]) for shard in sorted({listed[key] for key in wanted})}
    missing = next((shard for shard, path in found.items() if path is None), None)
    if missing is not None:
        raise ModelError(
            f"'{name}' is incomplete: {INDEX} names {missing}, which is not there. Fetch it again."
        )
    places = {key: path for key in wanted if (path := found[listed[key]]) is not None}
    return places, len(wanted) < len(listed)


def _names(name: str, file: Path) -> list[str]:
    try:
        with safe_open(file, "pt") as opened:
            return list(opened.keys())
    except (SafetensorError, OSError):
        raise ModelError(
            f"'{name}' has damaged weights: {file.name} is not a whole safetensors file."
        ) from None


def _shards(name: str, file: Path) -> dict[str, str]:
    """The shard of each tensor, by an index."""
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))["weight_map"]
        shards = {str(key): str(shard) for key, shard in listed.items()}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ModelError(f"'{name}' has a damaged index: {INDEX} holds no 'weight_map'.") from None
    if any(Path(shard).name != shard or not shard.endswith(".safetensors") for shard in shards.values()):
        raise ModelError(f"'{name}' has a damaged index: {INDEX} names files that are not beside it.")
    return shards


def _without_weights(source: str, name: str, title: str, files: list[str]) -> str:
    folder = Path(source)
    pickled = (
        sorted(path.name for end in ("bin", "pt", "pth") for path in folder.glob(f"*.{end}"))
        if folder.is_dir()
        else []
    )
    if folder.is_dir() and not pickled:
        return (
            f"'{name}' holds no {title}: none of {', '.join(files)} and {INDEX} is there. Choose another folder or "
            "hub id."
        )
    has = f"it has {pickled[0]}; " if pickled else ""
    return (
        f"'{name}' has no {title} in safetensors ({' or '.join(files)}): {has}pickled files (.pt, .bin) can run code "
        "when read and are refused. Convert a file you trust once: safetensors.torch.save_file(torch.load(FILE, "
        f"weights_only=True), '{files[0]}')."
    )


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


def short(source: str) -> str:
    """A source's name in messages: a hub id as it is, a folder's last part."""
    return Path(source).name if Path(source).is_absolute() or Path(source).is_dir() else source
