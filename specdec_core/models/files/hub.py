"""Reading weights and tokenizers from a folder or the hub: safetensors only, no code from a model's repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import DownloadRefused, ModelError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.models.gguf_files.header import parts
from specdec_core.models.gguf_files.kinds import best as best_gguf

from . import unread_tensors as surplus
from . import weight_files
from .load_errors import no_weights, sentences, short
from .quantised import check_quantised, widen

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
WANTED = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
HUB_FILE = re.compile(
    r"(?P<repository>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(/(?P<file>[\w.-]{1,200}\.gguf))?",
    re.ASCII,
)
MAX_NAME_LENGTH = 1_000
MAX_LAYERS = 1_000  # more than any model has; stops a hostile configuration from building forever
Report = Callable[[int, int], None]  # bytes so far, bytes in all


def fetch(name: str, report: Report = lambda done, total: None, most: int | None = None) -> None:
    """Download what loading needs into the hub's cache, reporting the progress in bytes: weights as safetensors, else
    one GGUF file.

    Args:
        most: the largest download that is allowed, in bytes.

    Raises:
        ModelError: if the hub cannot be reached, or has no such model, or it has neither kind of weights.
        DownloadRefused: if it is larger than `most`.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    match = HUB_FILE.fullmatch(name)
    repository = match["repository"] if match else name
    with sentences(name):
        siblings = HfApi().model_info(repository, files_metadata=True).siblings or []
        sizes = {file.rfilename: file.size or 0 for file in siblings}
        names = [file for file in filter_repo_objects(sizes, allow_patterns=WANTED) if "/" not in file]
        if (match and match["file"]) or not any(file.endswith(".safetensors") for file in names):
            quantised = match["file"] if match and match["file"] in sizes else best_gguf(sorted(sizes))
            if quantised is None:
                raise ModelError(no_weights(repository, list(sizes)))
            names = _parts(quantised)
            for file in names:
                if file not in sizes:
                    raise ModelError(
                        f"'{short(repository)}' lacks '{file}', a part of the model. Choose another file."
                    )
        else:
            index = weight_files.INDEX
            of_index = None
            if index in names and weight_files.SINGLE not in names:
                of_index = weight_files.listed(Path(hf_hub_download(repository, index)), repository)
            names = weight_files.needed(names, of_index)
        done, total = 0, sum(sizes[file] for file in names)
        if most is not None and total > most:
            raise DownloadRefused(
                f"'{short(name)}' would be a download of {total / 1e9:,.1f} GB, and this server takes up to "
                f"{most / 1e9:,.1f} GB. Choose a smaller model."
            )
        for file in names:
            report(done, total)
            hf_hub_download(repository, file)
            done += sizes[file]
        report(total, total)


def fetch_gguf(name: str) -> Path | None:
    """The GGUF file of a hub id whose repository holds no safetensors, or of owner/name/file.gguf, fetched if need be.

    None if it is not a name on the hub, or the repository is not of this kind.

    Raises:
        ModelError: if the hub cannot be reached or has no such repository.
    """
    from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache

    match = HUB_FILE.fullmatch(name)
    if match is None or ".." in name:
        return None
    repository, wanted = match["repository"], match["file"]
    if wanted is None and isinstance(try_to_load_from_cache(repository, "config.json"), str):
        return None  # an ordinary model, already here
    with sentences(name):
        if wanted is None:
            siblings = HfApi().model_info(repository, timeout=10).siblings or []
            files = sorted(file.rfilename for file in siblings)
            if any(file.endswith(".safetensors") for file in files):
                return None
            wanted = best_gguf(files)
        if wanted is None:
            return None
        first, *_ = [Path(hf_hub_download(repository, file)) for file in _parts(wanted)]
        return first


def _parts(file: str) -> list[str]:
    """All files of a model, of one that may be split."""
    return [part.name for part in parts(Path(file))]


def check_name(name: str) -> None:
    """
    Raises:
        ModelError: one sentence, if it is empty or too long to be a model's name.
    """
    if not name.strip():
        raise ModelError("The model's name is empty. Give a catalogue name, a hub id or a folder.")
    if len(name) > MAX_NAME_LENGTH:
        raise ModelError(
            f"A model's name has at most {MAX_NAME_LENGTH} characters, got {len(name):,}. Give a hub id or a folder."
        )


def check_present(source: str) -> None:
    """Check that a model exists before loading it; one short request to the hub, where loading would retry for minutes.

    Raises:
        ModelError: if it is not a model folder, nor in the cache, nor on the hub.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    check_name(source)
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"The folder '{folder.name}' holds no model: it has no config.json. Choose another folder."
            )
        return
    if folder.is_absolute():
        raise ModelError(f"There is no folder '{folder.name}'. Check the path, or give a hub id.")
    with sentences(source):
        if not isinstance(try_to_load_from_cache(source, "config.json"), str):
            HfApi().model_info(source, timeout=10)


def find_file(source: str, names: Sequence[str]) -> Path | None:
    """The first of these files that a folder or hub id has, fetched into the hub's cache if need be; None without any.

    Raises:
        ModelError: if the hub cannot be reached or has no such repository.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    folder = Path(source)
    if folder.is_dir():
        return next((folder / name for name in names if (folder / name).is_file()), None)
    with sentences(source):
        for name in names:
            try:
                return Path(hf_hub_download(source, name))
            except LocalEntryNotFoundError:  # not a missing file: the hub cannot be reached
                raise
            except EntryNotFoundError:
                continue
    return None


def load_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a folder or hub id.

    Raises:
        ModelError: if there is none.
    """
    from transformers import AutoTokenizer

    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in TOKENIZER_FILES):
        raise ModelError(
            f"The folder '{short(source)}' has no tokenizer: none of {', '.join(TOKENIZER_FILES)} is there. Save the "
            "model's tokenizer beside its weights (tokenizer.save_pretrained)."
        )
    with sentences(source):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise ModelError(
            f"'{short(source)}' has no fast tokenizer (tokenizer.json), which the token texts need."
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded


def load_model(source: str, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The causal LM or T5-like model of a folder or hub id, in eval mode on `device`.

    Raises:
        ModelError: see `models.load_models`.
    """
    config = read_config(source)
    with sentences(source):
        check_config(config, short(source))
        check_quantised(config, short(source))
        _check_states(config, short(source))
    if Path(source).is_dir():
        weight_files.of_folder(Path(source))
    with sentences(source):
        config.return_dict = True
        widen(config)
        model: PreTrainedModel
        model, info = auto(config).from_pretrained(
            source,
            output_loading_info=True,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation=_attention(config),
        )
    with sentences(source):
        surplus.check(model, info, source)
    return model.to(device).eval()  # type: ignore[arg-type, no-any-return]


def _attention(config: PreTrainedConfig) -> str | None:
    """Which of transformers' attentions a model runs on: SDPA where it can, else its own, which takes a mask as well.

    None leaves it to transformers: T5 uses SDPA where this version supports it, else its own exact attention.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    if config.is_encoder_decoder:
        return None
    return "sdpa" if getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], "_supports_sdpa", True) else "eager"


def read_config(source: str) -> PreTrainedConfig:
    """The configuration of a folder or hub id.

    Raises:
        ModelError: if there is none that transformers knows.
    """
    from transformers import AutoConfig

    with sentences(source):
        config: PreTrainedConfig = AutoConfig.from_pretrained(source, trust_remote_code=False)
    return config


def auto(config: PreTrainedConfig) -> Any:
    """The class that builds a model that writes text from such a configuration."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def check_config(config: PreTrainedConfig, name: str) -> None:
    """Refuse a configuration before anything is built from it.

    Raises:
        ModelError: if its sizes are implausible, or see `check_architecture`.
    """
    layers = getattr(config, "num_hidden_layers", 1)
    if isinstance(layers, int) and not 0 < layers <= MAX_LAYERS:
        raise ModelError(
            f"'{name}' says it has {layers:,} layers, and 1 to {MAX_LAYERS:,} are read. Correct its config.json."
        )
    check_architecture(config, name)


def check_architecture(config: PreTrainedConfig, name: str) -> None:
    """Refuse what the loop cannot roll back or read as a tree.

    Raises:
        ModelError: saying what the model is and why that does not work.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    from specdec_core.runtime.architectures.recurrent import recurrent
    from specdec_core.runtime.architectures.t5 import FAMILY

    if config.is_encoder_decoder and config.model_type in FAMILY:
        return
    if config.is_encoder_decoder:
        raise ModelError(
            f"'{name}' ({config.model_type}) is an encoder–decoder model of another kind than T5. Choose one of the T5 "
            "family (T5, FLAN-T5, mT5), or a causal language model."
        )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"'{name}' ({config.model_type}) is not a causal language model. Choose one that writes text."
        )
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING and getattr(config, "is_decoder", None) is False:
        raise ModelError(
            f"'{name}' ({config.model_type}) is an encoder; it fills gaps. Choose a model that writes text."
        )
    if config.get_text_config() is not config:
        raise ModelError(
            f"'{name}' ({config.model_type}) reads more than text, such as pictures. Choose a model of text alone."
        )
    if recurrent(config):
        return
    layers = {type(layer) for layer in DynamicCache(config=config).layers}
    # of a class with recurrent layers a model may have none
    attends = set(getattr(config, "layer_types", None) or [""]) <= {"full_attention", "sliding_attention"}
    stateful = getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], "_is_stateful", False) and not attends
    if stateful or not layers <= {DynamicLayer, DynamicSlidingWindowLayer}:
        raise ModelError(
            f"'{name}' ({config.model_type}) keeps a recurrent state in a form that cannot be copied here, so it could "
            "not forget a rejected draft exactly. Choose a model with attention in every layer."
        )


def _check_states(config: PreTrainedConfig, name: str) -> None:
    """Refuse recurrent layers that cannot take a rejected draft back, on a small model with random weights."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    from specdec_core.runtime.architectures.recurrent import recurrent, state_check
    from specdec_core.runtime.self_check import skeleton

    if not config.is_encoder_decoder and recurrent(config):
        kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        small = skeleton(kind, config, torch.device("cpu"))
        if small is not None:
            state_check(small, name, small=True)
