"""Loaded models, heads and a tokenizer as what one decode needs, each checked to read trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.foundations.errors import ModelError
from specdec_core.runtime.architectures.recurrent import recurrent, state_check
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.runtime.cuda_graphs import works
from specdec_core.runtime.machine import describe, fitting_threads, threads
from specdec_core.runtime.reader import CausalReader
from specdec_core.runtime.self_check import self_check, skeleton, window_check
from specdec_core.runtime.windows import Windows

from .bundle import HubModel, Model, Models, NarrowModel
from .generation import Generation
from .loaded_check import check_loaded
from .tokens.tokenizer import HubCodec
from .tokens.translation import ForeignDraft

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def foreign(
    models: Models,
    tokenizer: PreTrainedTokenizerBase,
    draft: PreTrainedModel,
    name: str = "foreign draft",
    graphs: bool = True,
) -> ForeignDraft:
    """A loaded draft with its own `tokenizer`, for the target of `models`.

    Raises:
        ModelError: if one of the two models has an encoder, or the draft fails the check of `assemble`.
    """
    if draft.config.is_encoder_decoder or not models.causal:
        raise ModelError(
            f"'{name}' cannot draft by another tokenizer for '{models.target.info.name}': one of them has an "
            "encoder. Choose two causal language models."
        )
    model = checked(name, draft, graphs)
    ends = (tokenizer.eos_token_id, getattr(models.codec, "tokenizer", tokenizer).eos_token_id)
    own, theirs = (
        end if _is_token(end, size) else None
        for end, size in zip(ends, (model.vocabulary, models.target.vocabulary), strict=True)
    )
    begin = tokenizer.bos_token_id
    return ForeignDraft(
        model, HubCodec(tokenizer, finishing=False), begin if _is_token(begin, model.vocabulary) else own or 0, own,
        (models.codec, models.target.vocabulary, theirs),
    )  # fmt: skip


def arrange_weights(models: Models, bits: int = 16) -> None:
    """Store the weights for their CPU (see `runtime.cpu_linear`); after loading the heads, which copy rows of them."""
    if isinstance(models.target, HubModel):
        models.target.arrange(bits=bits)
    elif isinstance(models.target, EncoderDecoder):
        arrange(models.target.model)
    other = models.foreign_draft.model if models.foreign_draft else None
    for one in (models.draft, models.larger_draft, other):
        own = one.model if isinstance(one, NarrowModel) else one
        if isinstance(own, HubModel):
            own.arrange(steps=True, bits=bits)  # drafts read one token at a time
    parallel = models.parallel_draft
    own = parallel.model if isinstance(parallel, NarrowModel) else parallel
    if isinstance(own, HubModel):
        own.arrange(bits=bits)  # reads all its guesses in one pass


def assemble(
    tokenizer: PreTrainedTokenizerBase,
    target: PreTrainedModel,
    draft: PreTrainedModel | None = None,
    names: tuple[str, ...] = ("target", "draft", "larger draft"),
    graphs: bool = True,
    heads: Mapping[str, Any] | None = None,
    larger_draft: PreTrainedModel | None = None,
    draft_vocabularies: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Models:
    """Models from objects already loaded, e.g. in a notebook or a test; each is checked on a small tree first.

    `graphs`: whether passes on CUDA are captured as graphs, where the model allows it; see `graphs`.
    `heads`: from `heads.load_heads`, or heads of the target's sizes, dtype and device.
    `draft_vocabularies`: int64 (k,) for the draft and the larger draft, where they use only part of the vocabulary.

    Raises:
        ModelError: if a model's tree pass does not equal its path-by-path passes, or one is not a loaded model.
    """
    check_loaded(tokenizer, target, draft, larger_draft)
    names = (*names, *("target", "draft", "larger draft")[len(names) :])
    drafts = ((names[1], draft), (names[2], larger_draft))
    for name, small_model in drafts:
        if small_model is None or small_model.config.is_encoder_decoder == target.config.is_encoder_decoder:
            continue
        raise ModelError(
            f"'{short_name(name)}' cannot draft for '{short_name(names[0])}': one of them has an encoder and the "
            "other has none. Choose a draft of the same family."
        )
    device = target.device
    generation = target.generation_config
    ends = generation.eos_token_id if generation is not None else None
    named = [tokenizer.eos_token_id] if ends is None else ends if isinstance(ends, list | tuple) else [ends]
    known = int(target.get_output_embeddings().weight.shape[0])
    small, larger = (
        as_draft(name, model, graphs, ids, known)
        for (name, model), ids in zip(drafts, draft_vocabularies, strict=True)
    )
    codec = HubCodec(tokenizer, finishing=bool(target.config.is_encoder_decoder))
    turn_end = None if target.config.is_encoder_decoder else codec.turn_end()
    models = Models(
        codec=codec,
        target=checked(names[0], target, graphs),
        draft=small,
        heads=heads or {},
        eos=frozenset(token for token in named if _is_token(token, known)),
        turn_end=turn_end if _is_token(turn_end, known) and turn_end not in named else None,
        bos=tokenizer.bos_token_id if _is_token(tokenizer.bos_token_id, known) else None,
        device=str(device.type),
        dtype=str(target.dtype).removeprefix("torch."),
        machine=describe(device),
        threads=fitting_threads(device, int(target.num_parameters())),
        larger_draft=larger,
    )
    models.generation = Generation.read(generation, models.notes())
    return models


def _is_token(value: object, vocabulary: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocabulary


def as_draft(
    name: str, model: PreTrainedModel | None, graphs: bool, ids: Tensor | None, vocabulary: int
) -> Model | None:
    """A draft as a `Model` over the target's vocabulary."""
    if model is None:
        return None
    whole = checked(name, model, graphs)
    return whole if ids is None else NarrowModel(whole, ids, vocabulary)


def checked(name: str, model: PreTrainedModel, graphs: bool) -> Model:
    """A loaded model as a `Model`, after checking that it reads trees; on as many CPU threads as it will run on: where
    another process keeps a core busy, two that wait for each other take ten times as long."""
    with threads(fitting_threads(model.device, int(model.num_parameters()))):
        return _wrapped(name, model, graphs)


def _wrapped(name: str, model: PreTrainedModel, graphs: bool) -> Model:
    model.eval()
    if recurrent(model.config):
        state_check(model, name)
        return HubModel(name, model)
    _check(name, model)
    windows = Windows.of(model.config)
    exact = model.dtype == torch.float32 and not windows
    small = None if exact else skeleton(type(model), model.config, model.device)
    if windows:
        window_check(small, name)
    if small is not None:
        _check(name, small)
    if model.config.is_encoder_decoder:
        return EncoderDecoder(name, model)
    return HubModel(name, model, graphs and model.device.type == "cuda" and works(model))


def _check(name: str, model: PreTrainedModel) -> None:
    encodes = model.config.is_encoder_decoder
    reader = EncoderDecoder(name, model, [1, 2, 3]).reader(16) if encodes else CausalReader(model, 16)
    self_check(reader, name)


def short_name(source: str) -> str:
    """A model's name in a trace: a hub id as it is, a folder's last part, never a path."""
    return Path(source).name if Path(source).is_absolute() or Path(source).exists() else source
