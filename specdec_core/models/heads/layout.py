"""Files of trained heads: a config.json beside safetensors, in a folder or on the hub. Pickles are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specdec_core.errors import ModelError
from specdec_core.models import hub

ACCURACY, TREE_TEMPERATURE = "specdec_accuracy", "specdec_tree_temperature"
MOST = 64  # modules, layers or blocks that a configuration may ask for
SIZES = (  # the entries of a Llama configuration that define a layer
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias",
    "max_position_embeddings",
)  # fmt: skip

Head = TypeVar("Head", bound=nn.Module)


HELD = {"medusa": "Medusa heads", "eagle": "an EAGLE head", "eagle3": "an EAGLE-3 head", "mtp": "MTP modules"}
"""The kinds of heads, as `load_models` names them, and what a folder of each holds."""
WEIGHTS = {
    "medusa": ("medusa_lm_head.safetensors", "model.safetensors"),
    "eagle": ("model.safetensors",),
    "eagle3": ("model.safetensors",),
    "mtp": ("mtp.safetensors", "model.safetensors"),
}
"""The files of each kind; the first one found is used."""
_THIRD = re.compile(r"midlayer\..+|t2d|layers\.0\.hidden_norm\.weight")
_MEDUSA = re.compile(r"(medusa_head\.)?\d+\.\d+\.linear\.weight")
_MTP = re.compile(r"(model\.)?layers\.\d+\.enorm\.weight")


def held_by(names: Iterable[str]) -> str | None:
    """Which kind of head has weights of these names, a key of `HELD`; None if it is none of them."""
    names = set(names)
    joined = "fc.weight" in names
    if any(map(_THIRD.fullmatch, names)) or (joined and "lm_head.weight" in names):
        return "eagle3"
    if any(map(_MTP.fullmatch, names)):
        return "mtp"
    if any(map(_MEDUSA.fullmatch, names)):
        return "medusa"
    return "eagle" if joined else None


def _refuse_another(source: str, kind: str) -> None:
    """Refuse a folder or hub id that holds heads of another kind.

    Raises:
        ModelError: naming the kind that it holds.
    """
    every = dict.fromkeys(file for files in (WEIGHTS[kind], *WEIGHTS.values()) for file in files)
    file = hub.find_file(source, list(every))
    if file is None:
        return
    try:
        with safe_open(file, "pt") as weights:
            held = held_by(weights.keys())
    except (SafetensorError, OSError):  # reading it says so
        return
    if held not in (None, kind):
        raise ModelError(f"'{short(source)}' holds {HELD[held]}; load it as {held}=….")


def read(source: str, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors (on the CPU, as stored) of a folder or hub id.

    Args:
        source: folder or hub id.
        kind: of heads, a key of `HELD`.

    Raises:
        ModelError: with one sentence, if something is missing, a pickle, damaged, or of another kind.
    """
    name, weights = short(source), WEIGHTS[kind]
    title = HELD[kind].split(" ", 1)[-1] if kind.startswith("eagle") else HELD[kind]
    hub.check_present(source)
    config_file = hub.find_file(source, ["config.json"])
    if config_file is None:
        raise ModelError(
            f"'{name}' holds no {title}: it has no config.json. Choose another folder or hub id."
        )
    try:
        config = json.loads(config_file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not JSON.") from None
    if not isinstance(config, dict):
        raise ModelError(f"'{name}' has a damaged configuration: its config.json is not an object.")
    _refuse_another(source, kind)
    file = hub.find_file(source, weights)
    if file is None:
        raise ModelError(
            f"'{name}' has no {title} in safetensors ({' or '.join(weights)}); pickled ones (.pt, .bin) can run code "
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


def llama_entries(name: str, config: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """The entries that define one Llama layer for a target with `vocabulary` logits.

    Raises:
        ModelError: if a size is missing or no number.
    """
    for key in ("hidden_size", "num_attention_heads", "intermediate_size"):
        number(name, config, key)
    known = (*SIZES, "rope_theta", "rope_parameters", "rope_scaling")
    taken = {key: config[key] for key in known if key in config}
    return taken | {"vocab_size": vocabulary, "num_hidden_layers": 1}


def llama_written(config: Any) -> dict[str, Any]:
    """The same entries of a head's configuration, for config.json."""
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


def filled(name: str, kind: str, tensors: Mapping[str, Tensor], made: Callable[[], Head]) -> Head:
    """The head that `made` creates, with the weights of a file.

    Raises:
        ModelError: with one sentence, if it cannot be created, or a weight is missing or of another shape.
    """
    try:
        with torch.device("meta"):  # shapes only, so that a hostile size allocates nothing
            wanted = made().state_dict()
    except Exception as error:  # transformers raises many kinds of errors on a damaged configuration
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"'{name}' has a damaged configuration: {reason}.") from None
    for key, tensor in wanted.items():
        if key not in tensors:
            raise ModelError(
                f"'{name}' holds no complete {kind}: '{key}' is missing. Fetch or export it again."
            )
        fitting(name, key, tensors[key], tuple(tensor.shape))
    head = made()
    head.load_state_dict({key: tensors[key] for key in head.state_dict()})
    return head


def accuracy(config: Mapping[str, Any]) -> list[float] | None:
    """The measured shares of right guesses by rank, if the configuration has valid ones."""
    shares = config.get(ACCURACY)
    usable = isinstance(shares, list) and all(isinstance(share, int | float) for share in shares)
    return [float(share) for share in shares] if usable and isinstance(shares, list) else None


def measured(shares: list[float] | None, temperature: float) -> dict[str, Any]:
    """What was measured of a head, for its configuration."""
    return {ACCURACY: shares} | ({} if temperature == 1.0 else {TREE_TEMPERATURE: temperature})


def tree_temperature(name: str, config: Mapping[str, Any]) -> float:
    """The temperature at which the head's probabilities choose the best trees for greedy text; 1 if not measured.

    Raises:
        ModelError: if it is no number from 0.1 to 10.
    """
    found = config.get(TREE_TEMPERATURE, 1.0)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0.1 <= found <= 10.0:
        raise ModelError(
            f"'{name}' has no usable '{TREE_TEMPERATURE}' in its config.json: it is a number from 0.1 to 10. Correct "
            "it or leave it out."
        )
    return float(found)


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
