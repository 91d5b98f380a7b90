"""GGUF files: checking, and converting to bfloat16 safetensors in the transformers layout.

transformers reads the architecture, the tokenizer and the names of the weights; the blocks of quantised weights are
unpacked with the `gguf` package, one tensor at a time, to float32 and then rounded to bfloat16. That gives the weights
that `from_pretrained(gguf_file=…)` gives, rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec_core.errors import ModelError
from specdec_core.lazy_torch import torch

from . import conversions, hub
from .conversions import Origin, Report, quiet
from .explain import sentences

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

MAGIC = b"GGUF"
SUFFIX = ".gguf"
LARGEST_BYTES = 16_000_000_000
SMALL_FILES_BYTES = 20_000_000  # tokenizer and configuration
NOT_FOR_TEXT = {"general", "tokenizer"}  # sections of transformers' table that are not architectures
QUICK = ("llama", "qwen2", "qwen3")
MOST_TENSORS = 100_000


def find(folder: Path) -> Path | None:
    """The GGUF file of a folder that holds one but no transformers model; None if it has none.

    Raises:
        ModelError: if there are several to choose from.
    """
    if (folder / "config.json").is_file():
        return None
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if len(files) > 1:
        raise ModelError(
            f"The folder '{folder.name}' holds {len(files)} GGUF files: name the file itself, such as "
            f"'{folder.name}/{files[0].name}'."
        )
    return files[0] if files else None


def converted(path: Path, report: Report = quiet, name: str | None = None, sha256: str | None = None) -> Path:
    """The folder with the converted model, from the cache or converted now.

    Args:
        path: the GGUF file.
        report: receives the progress.
        name: the copy's name in the cache; by default the file's name and the start of its checksum.
        sha256: the checksum the file must have, if given.

    Raises:
        ModelError: one sentence, if the file cannot be read or converted.
    """
    count = check(path)
    report(0.0, f"Reading {path.name}")
    origin = Origin(path.name, path.stat().st_size, conversions.checksum(path))
    if sha256 is not None and origin.sha256 != sha256:
        raise ModelError(
            f"'{path.name}' is not the file that was expected (its checksum begins with {origin.sha256[:12]}, not "
            f"{sha256[:12]}). Install the package again, in the version that constraints.txt names."
        )
    name = name or f"{_plain(path.stem)}-{origin.sha256[:16]}"
    if found := conversions.find(name, origin.sha256):
        return found
    needed = 2 * count + SMALL_FILES_BYTES
    return conversions.make(
        name, origin, needed, lambda folder, report: _convert(path, folder, report), report
    )


def check(path: Path) -> int:
    """Check that a file is a complete, readable GGUF file; returns the number of its weights.

    Raises:
        ModelError: one sentence saying what is wrong with it.
    """
    name = path.name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise ModelError(f"'{name}' cannot be read: {error.strerror or 'unknown reason'}.") from error
    if magic != MAGIC:
        raise ModelError(
            f"'{name}' is not a GGUF file: it does not begin with the letters GGUF. Fetch it again, or choose another."
        )
    if size > LARGEST_BYTES:
        raise ModelError(
            f"'{name}' has {size / 1e9:,.1f} GB, and GGUF files of up to {LARGEST_BYTES / 1e9:,.0f} GB are converted. "
            "Choose a smaller model."
        )
    from transformers.integrations.gguf.reader import GgufHeader, read_gguf_metadata

    try:
        facts, names = read_gguf_metadata(str(path))
        header = GgufHeader.from_file(str(path)) if len(names) <= MOST_TENSORS else None
    except Exception as error:  # a damaged header may cause struct, index, unicode and value errors
        if "ggml type" in str(error):
            raise ModelError(
                f"'{name}' holds weights in a number format that transformers does not read. Choose another "
                "quantisation of the model, such as Q8_0 or Q4_K_M."
            ) from error
        raise ModelError(
            f"'{name}' is cut off or damaged: its header cannot be read. Fetch it again."
        ) from error
    _check_kind(name, facts)
    if header is None or not header.tensors:
        raise ModelError(f"'{name}' holds no weights that could be read. Choose another file.")
    stored = sum(info.nbytes for info in header.tensors)
    end = header.data_start + max(info.offset + info.nbytes for info in header.tensors)
    if end > size or stored > size:  # overlapping tensors would let a small file expand without bound
        raise ModelError(
            f"'{name}' is cut off: it should have {max(end, stored) / 1e6:,.1f} MB and has {size / 1e6:,.1f} MB. "
            "Fetch it again."
        )
    return sum(int(np.prod(info.shape, dtype=object)) for info in header.tensors)


def _check_kind(name: str, facts: dict[str, Any]) -> None:
    """Refuse what is not a complete model, with a tokenizer, of an architecture transformers reads."""
    from transformers.integrations.gguf.utils import is_gguf_arch_supported
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES, TENSOR_PROCESSORS

    kind = facts.get("general.architecture")
    if facts.get("split.count", 0) not in (0, 1):
        raise ModelError(
            f"'{name}' is one part of a model that was split into {facts['split.count']}. Join them with llama.cpp's "
            "gguf-split --merge, or choose a file that is whole."
        )
    known = {*GGUF_SUPPORTED_ARCHITECTURES, *TENSOR_PROCESSORS} - NOT_FOR_TEXT
    if not isinstance(kind, str) or not (kind in known or is_gguf_arch_supported(kind)):
        raise ModelError(
            f"'{name}' is of the architecture {str(kind)[:40]!r}, which transformers does not read from GGUF files. "
            "Choose a model of the Llama, Qwen2, Qwen3 or GPT-2 layout, or its safetensors."
        )
    if not facts.get("tokenizer.ggml.tokens") or not facts.get("tokenizer.ggml.model"):
        raise ModelError(
            f"'{name}' has no tokenizer, so its text cannot be read. Choose a file that has one."
        )


def _convert(path: Path, folder: Path, report: Report) -> None:
    """Write the model of a GGUF file into `folder`: configuration, tokenizer, bfloat16 weights."""
    from safetensors.torch import save_file
    from transformers import PreTrainedTokenizerFast

    with sentences(path.name):
        report(0.05, "Reading the configuration")
        config = _config(path)
        hub.check_config(config, path.name)
        report(0.2, "Reading the tokenizer")
        # The general class: AutoTokenizer would parse the whole header again to pick a specific one.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name)
        tokenizer.save_pretrained(str(folder))
        with torch.device("meta"):
            model = hub.auto(config).from_config(config, trust_remote_code=False)
        save_file(_weights(path, model, report), folder / "model.safetensors", metadata={"format": "pt"})
        _write_config(config, model, folder)


def _config(path: Path) -> PreTrainedConfig:
    """The configuration transformers derives from the file's metadata.

    Usual architectures use transformers' own table: its general path parses the header entry by entry, which
    takes most of a conversion's time.
    """
    from transformers import AutoConfig
    from transformers.integrations.ggml import GGUF_CONFIG_DEFAULTS_MAPPING, GGUF_CONFIG_MAPPING
    from transformers.integrations.gguf.reader import read_gguf_metadata

    facts, names = read_gguf_metadata(str(path))
    kind = facts["general.architecture"]
    config: PreTrainedConfig
    if kind not in QUICK or facts.get("general.name") == "mistral":
        config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name)
        return config
    values: dict[str, Any] = {"tie_word_embeddings": "output.weight" not in names}
    values |= GGUF_CONFIG_DEFAULTS_MAPPING.get(kind) or {}
    table: Any = GGUF_CONFIG_MAPPING
    for key, value in facts.items():
        section, _, rest = key.partition(".")
        name = table.get(section, {}).get(rest)
        if name is not None and name != -1:
            values[name] = value
    values.setdefault("vocab_size", facts["tokenizer.ggml.tokens"])
    config = AutoConfig.for_model(**values)
    return config


def _write_config(config: PreTrainedConfig, model: PreTrainedModel, folder: Path) -> None:
    config.architectures = [type(model).__name__]
    config.dtype = torch.bfloat16
    config.name_or_path = ""  # a path on this machine
    config.save_pretrained(str(folder))
    if model.generation_config is not None:
        model.generation_config.save_pretrained(str(folder))


def _weights(path: Path, model: PreTrainedModel, report: Report) -> dict[str, Tensor]:
    """The weights of a GGUF file under the names of `model`, bfloat16, without the tied output matrix.

    Raises:
        ModelError: if they do not match `model`.
    """
    import gguf
    from transformers.integrations.gguf.reader import GgufHeader
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    header = GgufHeader.from_file(str(path))
    blob = np.memmap(path, mode="r", dtype=np.uint8)
    kind: Any = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)
    processor = kind(config=model.config.to_dict())
    with _one_table():
        names = get_gguf_hf_weights_map(model, processor)
    further: dict[str, Tensor] = {}  # assembled by a processor: experts, and GPT-2's output matrix
    weights: dict[str, Tensor] = {}
    for at, info in enumerate(header.tensors):
        report(0.35 + 0.5 * at / len(header.tensors), f"Converting weights, {at} of {len(header.tensors)}")
        start = header.data_start + info.offset
        stored = blob[start : start + info.nbytes].reshape(*info.shape[:-1], -1)
        unpacked = gguf.dequantize(stored, gguf.GGMLQuantizationType(info.ggml_type)).reshape(info.shape)
        result = processor.process(
            weights=unpacked,
            name=info.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": further},
        )
        if result.name in names:
            weights[names[result.name]] = torch.from_numpy(np.copy(result.weights)).to(torch.bfloat16)
    weights |= {name: tensor.to(torch.bfloat16) for name, tensor in further.items()}
    report(0.88, "Writing the converted weights")
    return _fitting(weights, model, path.name)


@contextmanager
def _one_table() -> Iterator[None]:
    """transformers builds the table of all names again for every module of a model; within this, once."""
    import gguf

    built = gguf.get_tensor_name_map
    gguf.get_tensor_name_map = cache(built)
    try:
        yield
    finally:
        gguf.get_tensor_name_map = built


def _fitting(weights: dict[str, Tensor], model: PreTrainedModel, name: str) -> dict[str, Tensor]:
    """The weights that `model` keeps, contiguous, tied ones once.

    Raises:
        ModelError: if one is missing or has another shape.
    """
    wanted = model.state_dict()
    tied = (
        set(getattr(model, "all_tied_weights_keys", None) or ())
        if model.config.tie_word_embeddings
        else set()
    )
    found = {}
    for key, place in wanted.items():
        if key in tied and key not in weights:
            continue
        if key not in weights or weights[key].shape != place.shape:
            raise ModelError(
                f"'{name}' does not fit its own description: the weight '{key}' is missing or of another size. "
                "Fetch it again, or choose another file."
            )
        if key not in tied:
            found[key] = weights[key].contiguous()
    return found


def _plain(stem: str) -> str:
    """A file's name made safe for a folder name: letters, digits, dots, dashes."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in stem
    )
    return plain.lstrip("-_.")[:80] or "model"
