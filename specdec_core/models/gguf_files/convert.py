"""GGUF files: checking, and converting to bfloat16 safetensors in the transformers layout.

The configuration is ours (`gguf_config`), the tokenizer and the names of the weights are transformers'; the blocks of
quantised weights are unpacked with the `gguf` package, one tensor at a time, to float32 and then rounded to bfloat16.
Every tensor and every entry of the architecture is used, or the file is refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec_core.foundations.errors import ModelError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.models.files import hub
from specdec_core.models.files.load_errors import sentences

from . import cache as conversions
from . import config as gguf_config
from . import header as gguf_header
from .cache import Origin, Report, quiet
from .header import SUFFIX, GgufHeader
from .kinds import companion

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

SMALL_FILES_BYTES = 20_000_000  # tokenizer and configuration
# ways of splitting text that are GPT-2's, or part only digits beforehand, which their merges do not join either
LIKE_GPT2 = {
    "default", "gpt2", "gpt-2", "mpt", "olmo", "jais", "trillion", "granite-docling",
    "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
}  # fmt: skip
ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")  # of a text, a turn, a message


def find(folder: Path) -> Path | None:
    """The GGUF model of a folder that has one but no transformers model; None if it has no GGUF file. What lies beside
    a model (a projector, an importance matrix, a draft, an adapter) is passed over, by what the files themselves say.

    Raises:
        ModelError: if there are several to choose from, or only such companions.
    """
    if (folder / "config.json").is_file():
        return None
    files = sorted(path for path in folder.glob("*") if path.name.lower().endswith(SUFFIX) and path.is_file())
    firsts = list(dict.fromkeys(gguf_header.parts(path)[0] for path in files))
    if len(firsts) < 2:
        return firsts[0] if firsts else None
    kinds = {path: _companion(path) for path in firsts}
    models = [path for path, kind in kinds.items() if kind is None]
    if len(models) == 1:
        return models[0]
    if not models:
        listed = ", ".join(f"'{path.name}' is {kind}" for path, kind in list(kinds.items())[:3])
        raise ModelError(
            f"The folder '{folder.name}' has no whole model among its {len(firsts)} GGUF files: {listed}."
        )
    raise ModelError(
        f"The folder '{folder.name}' holds {len(models)} GGUF files to choose from: name the file itself, such as "
        f"'{folder.name}/{models[0].name}'."
    )


def _companion(path: Path) -> str | None:
    """What a file of a folder is beside a model; None for a model, and for what cannot be read, which loading names."""
    try:
        return companion(gguf_header.read(path))
    except ModelError:
        return None


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
    header = check(path)
    path = header.path
    report(0.0, f"Reading {path.name}")
    files = gguf_header.parts(path)
    origin = Origin(path.name, sum(file.stat().st_size for file in files), conversions.checksum(*files))
    if sha256 is not None and origin.sha256 != sha256:
        raise ModelError(
            f"'{path.name}' is not the file that was expected (its checksum begins with {origin.sha256[:12]}, not "
            f"{sha256[:12]}). Install the package again, in the version that constraints.txt names."
        )
    name = name or f"{_plain(path.stem)}-{origin.sha256[:16]}"
    if found := conversions.find(name, origin.sha256):
        return found
    needed = 2 * sum(stored.count for stored in header.tensors) + SMALL_FILES_BYTES
    return conversions.make(
        name, origin, needed, lambda folder, report: _convert(header, folder, report), report
    )


def check(path: Path) -> GgufHeader:
    """The header of a file that is a complete, readable GGUF model; of all its files where it is split.

    Raises:
        ModelError: one sentence saying what is wrong with it.
    """
    header, name = gguf_header.read(path), path.name
    if kind := companion(header):
        raise ModelError(
            f"'{name}' is {kind}, and no model that writes text by itself. Choose the model's own file."
        )
    if header.architecture not in gguf_config.KINDS:
        raise ModelError(
            f"'{name}' is of the architecture {header.architecture[:40]!r}, which is not read from GGUF files here: "
            f"{', '.join(gguf_config.KINDS)} are. Choose one of these, or the model's safetensors."
        )
    if not header.facts.get("tokenizer.ggml.tokens") or not header.facts.get("tokenizer.ggml.model"):
        raise ModelError(
            f"'{name}' has no tokenizer, so its text cannot be read. Choose a file that has one."
        )
    if not header.tensors:
        raise ModelError(f"'{name}' has no weights. Choose another file.")
    _check_splitting(header)
    return header


def _check_splitting(header: GgufHeader) -> None:
    """Refuse a byte-level vocabulary whose way of splitting text transformers would replace by GPT-2's."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    split = header.facts.get("tokenizer.ggml.pre")
    if header.facts["tokenizer.ggml.model"] != "gpt2" or split is None:
        return
    if split not in GGUF_PRE_TOKENIZER_SPLITS and split not in LIKE_GPT2:
        raise ModelError(
            f"'{header.path.name}' splits text as {str(split)[:40]!r} does (tokenizer.ggml.pre), which transformers "
            "does not know of GGUF files: the same text would become other tokens. Choose the model's safetensors."
        )


def _convert(header: GgufHeader, folder: Path, report: Report) -> None:
    """Write the model of a GGUF file into `folder`: configuration, tokenizer, bfloat16 weights."""
    from safetensors.torch import save_file
    from transformers import PreTrainedTokenizerFast

    path = header.path
    with sentences(path.name):
        report(0.05, "Reading the configuration")
        config, used = gguf_config.config(header)
        hub.check_config(config, path.name)
        with torch.device("meta"):
            model = hub.auto(config).from_config(config, trust_remote_code=False)
        names = _names(header, model)
        _check_tensors(header, names, used)
        report(0.2, "Reading the tokenizer")
        # The general class: AutoTokenizer would parse the whole header again to pick a specific one.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name)
        tokenizer.save_pretrained(str(folder))
        weights = _fitting(_weights(header, model, names, report), model, path.name)
        report(0.88, "Writing the converted weights")
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        _write_config(header, config, model, folder)


def _write_config(header: GgufHeader, config: PreTrainedConfig, model: PreTrainedModel, folder: Path) -> None:
    config.architectures = [type(model).__name__]
    config.dtype = torch.bfloat16
    config.name_or_path = ""  # a path on this machine
    config.save_pretrained(str(folder))
    if model.generation_config is not None:
        ends = (header.facts.get(f"tokenizer.ggml.{key}") for key in ENDS)
        listed = list(dict.fromkeys(end for end in ends if isinstance(end, int)))
        if len(listed) > 1:
            model.generation_config.eos_token_id = listed
        model.generation_config.save_pretrained(str(folder))


def _processor(header: GgufHeader, model: PreTrainedModel) -> Any:
    """What puts a tensor's numbers into transformers' order."""
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    like = {"gemma": "gemma2"} | dict.fromkeys(gguf_config.FOLLOWING, "llama")
    kind: Any = TENSOR_PROCESSORS.get(like.get(header.architecture, header.architecture), TensorProcessor)
    return kind(config=model.config.to_dict())


def _names(header: GgufHeader, model: PreTrainedModel) -> dict[str, str]:
    """The names of `model`'s weights by those of the file."""
    from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map

    with _one_table():
        found: dict[str, str] = get_gguf_hf_weights_map(model, _processor(header, model))
    return found


def _check_tensors(header: GgufHeader, names: Iterable[str], used: frozenset[str]) -> None:
    """Refuse a file with a tensor that nothing reads."""
    known = {*names, *used}
    known |= {f"{name}.weight" for name in known if "_exps" in name}  # experts, whose names have no ending
    surplus = sorted(header.names - known)
    if surplus:
        more = f" and {len(surplus) - 1} more" if len(surplus) > 1 else ""
        raise ModelError(
            f"'{header.path.name}' has the tensor '{surplus[0][:60]}'{more}, which a model of the architecture "
            f"'{header.architecture}' with these entries does not have: it would be left out of the computation. "
            "Choose another file, or the model's safetensors."
        )


def _weights(
    header: GgufHeader, model: PreTrainedModel, names: dict[str, str], report: Report
) -> dict[str, Tensor]:
    """The weights of a GGUF file under the names of `model`, bfloat16."""
    processor = _processor(header, model)
    further: dict[str, Tensor] = {}  # assembled by a processor: experts, and GPT-2's output matrix
    weights: dict[str, Tensor] = {}
    for at, stored in enumerate(header.tensors):
        report(0.35 + 0.5 * at / len(header.tensors), f"Converting weights, {at} of {len(header.tensors)}")
        if stored.name not in names and "_exps" not in stored.name:
            continue
        result = processor.process(
            weights=gguf_header.unpack(stored),
            name=stored.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": further},
        )
        if result.name in names:
            weights[names[result.name]] = torch.from_numpy(np.copy(result.weights)).to(torch.bfloat16)
    return weights | {name: tensor.to(torch.bfloat16) for name, tensor in further.items()}


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
    """The weights that `model` keeps, contiguous, tied ones once. Where a file has some of the biases that an attention
    or a feed-forward layer may have, the others are zero.

    Raises:
        ModelError: if one is missing or has another shape, or nothing has a place for it.
    """
    wanted = model.state_dict()
    tied = (
        set(getattr(model, "all_tied_weights_keys", None) or ())
        if model.config.tie_word_embeddings
        else set()
    )
    config = model.config
    free = getattr(config, "attention_bias", False), getattr(config, "mlp_bias", False)
    parts = tuple(part for part, given in zip((".self_attn.", ".mlp."), free, strict=True) if given is True)
    found = {}
    for key, place in wanted.items():
        if key in tied and key not in weights:
            continue
        if key not in weights and key.endswith(".bias") and any(part in key for part in parts):
            found[key] = torch.zeros(place.shape, dtype=torch.bfloat16)
            continue
        if key not in weights or weights[key].shape != place.shape:
            shape = f"has the shape {tuple(weights[key].shape)}" if key in weights else "is missing"
            raise ModelError(
                f"'{name}' does not fit its own description: the weight '{key}' {shape}, and the shape "
                f"{tuple(place.shape)} follows from its entries. Fetch it again, or choose another file."
            )
        if key not in tied:
            found[key] = weights[key].contiguous()
    if surplus := weights.keys() - wanted.keys():
        raise ModelError(
            f"'{name}' has the weight '{min(surplus)}', for which its model has no place. Choose another file."
        )
    return found


def _plain(stem: str) -> str:
    """A file's name made safe for a folder name: letters, digits, dots, dashes."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in stem
    )
    return plain.lstrip("-_.")[:80] or "model"
