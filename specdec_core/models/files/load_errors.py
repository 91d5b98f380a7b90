"""Errors of the hub, transformers and safetensors, each as one sentence that says what is wrong with the files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specdec_core.foundations.errors import ModelError, meant
from specdec_core.models.catalogue import names

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MAX_MESSAGE_LENGTH = 200  # characters of a library's own message


class sentences:
    """Turn exceptions of the hub and transformers into one `ModelError` sentence."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, ModelError) or not isinstance(error, Exception):
            return
        raise ModelError(_explain(self.source, error)) from error


def _explain(source: str, error: Exception) -> str:
    name, text, kind = short(source), str(error), type(error).__name__
    return (
        _of_repository(source, text, kind)
        or _of_configuration(name, error, text)
        or _of_weights(name, text, kind)
        or (None if Path(source).exists() else _of_access(name, error, text, kind))
        or _other(source, text, kind)
    )


def _of_repository(source: str, text: str, kind: str) -> str | None:
    """What the hub refuses, or the way the model was published."""
    name = short(source)
    if "trust_remote_code" in text or "custom code" in text:
        return (
            f"'{name}' needs code from its own repository, which is never run here. "
            "Choose a model that transformers knows."
        )
    if "safetensors" in text and "no file named" in text.lower():
        return no_weights(source)
    if kind == "GatedRepoError" or "gated repo" in text:
        return f"'{name}' is gated on the hub: accept its terms there and set HF_TOKEN, then load it again."
    if kind in ("RepositoryNotFoundError", "HFValidationError") or "is not a valid model identifier" in text:
        return f"There is no model '{name}': neither a folder here nor an id on the hub. Check the spelling."
    return None


def _of_configuration(name: str, error: Exception, text: str) -> str | None:
    """A config.json that names an unknown architecture, or none, or is not JSON."""
    unknown = re.search(r"has model type `([^`]{1,60})`", text)
    if "Unrecognized model in" in text or (unknown and unknown[1] == "None"):
        return f"The config.json of '{name}' names no model_type, so its architecture is unknown. Fetch it again."
    if unknown:
        from transformers import __version__

        return (
            f"'{name}' is of the type '{unknown[1]}', which transformers {__version__} does not know. "
            "Its files may be sound: choose another model, or a newer transformers."
        )
    if isinstance(error, json.JSONDecodeError) or "not a valid JSON file" in text:
        return f"'{name}' has a damaged configuration: a file of it is not JSON."
    return None


def _of_weights(name: str, text: str, kind: str) -> str | None:
    """Weights of another shape than config.json says, or a file that ends early or is something else."""
    if "ignore_mismatched_sizes" in text or "size mismatch" in text.lower():
        return f"The weights of '{name}' have other shapes than its config.json says. Fetch or export the model again."
    if kind != "SafetensorError":
        return None
    if any(sign in text for sign in ("not fully covered", "too small", "invalid header length")):
        return f"A weights file of '{name}' is cut off: its end is missing. Fetch it again."
    return (
        f"A weights file of '{name}' is not safetensors, or its beginning is damaged; a Git LFS pointer or a web page "
        "saved in its place looks like this. Fetch it again."
    )


def _of_access(name: str, error: Exception, text: str, kind: str) -> str | None:
    if isinstance(error, OSError) or "connect" in text.lower() or kind.endswith(("ConnectError", "Timeout")):
        return (
            f"'{name}' could not be loaded: there is no such folder here, and the hub cannot be reached or has no such "
            f"files. Check the name, and the network if it is a hub id.{meant(name, names())}"
        )
    return None


def _other(source: str, text: str, kind: str) -> str:
    """Any other error in the library's own words, without the model's path: what is wrong is not known here."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    first = cut(first.replace(source, short(source))).rstrip(" .:!")
    if kind == "KeyError" and first:
        first = f"{first} is not known to transformers"
    return f"'{short(source)}' could not be loaded; what reads it says: {first or kind}. Check its files."


def cut(text: str, most: int = MAX_MESSAGE_LENGTH) -> str:
    """The beginning of a text, ending at a word and with an ellipsis where something is left out."""
    if len(text) <= most:
        return text
    start = text[:most]
    return (start.rpartition(" ")[0] or start).rstrip(" ,;:.") + " …"


def no_weights(name: str, files: Iterable[str] = ()) -> str:
    """The sentence for a model without weights that are read, of the files that it has, as far as they are known."""
    listed = sorted(files)
    said = f"'{short(name)}' has no weights that are read here: neither model.safetensors, nor an index of several"
    if pickled := next((file for file in listed if file.endswith(PICKLED)), None):
        return (
            f"{said}. It has '{pickled}', a pickle, which can run code when it is read and is refused. Choose a model "
            "with safetensors files, or convert it."
        )
    if other := next((file for file in listed if file.endswith(".safetensors")), None):
        return (
            f"{said} (model.safetensors.index.json). It has '{other}' instead. Choose another model, or export it "
            "again."
        )
    return f"{said} (model.safetensors.index.json), nor a GGUF file. Choose another model, or convert it."


def short(source: str) -> str:
    """A model's name without the folders above it."""
    return Path(source).name if Path(source).is_absolute() else source
