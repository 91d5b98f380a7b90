"""Load a target with its draft, heads and tokenizer; refuse, with a sentence, what cannot be decoded speculatively."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.foundations.errors import ModelError, OtherTokenizer
from specdec_core.runtime.architectures.recurrent import recurrent, state_check
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.runtime.cuda_graphs import works
from specdec_core.runtime.machine import choose_device, choose_dtype, describe, fitting_threads, threads
from specdec_core.runtime.reader import CausalReader
from specdec_core.runtime.self_check import self_check, skeleton, window_check
from specdec_core.runtime.windows import Windows

from . import catalogue
from .bundle import HubModel, Model, Models, NarrowModel
from .files.hub import check_present, load_model, load_tokenizer
from .files.sources import locate, resolve
from .generation import Generation
from .gguf_files.cache import Report, quiet
from .heads import load_heads
from .loaded_check import check_loaded
from .memory import check_memory, need
from .tokens import draft_vocabulary
from .tokens.tokenizer import HubCodec
from .tokens.translation import ForeignDraft

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_models(
    target: str | Path | None = None,
    draft: str | Path | None = None,
    *,
    larger_draft: str | Path | None = None,
    parallel_draft: str | Path | None = None,
    foreign_draft: str | Path | None = None,
    medusa: str | Path | None = None,
    eagle: str | Path | None = None,
    eagle3: str | Path | None = None,
    mtp: str | Path | None = None,
    block: str | Path | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    graphs: bool = True,
    report: Report = quiet,
    say: Callable[[str], None] = lambda said: None,
) -> Models:
    """Load models for decoding.

    Args:
        target: None for the bundled family, a name of the catalogue, a hub id, a folder in the transformers layout, or
            a GGUF file, which is converted once and kept (see `conversions`).
        draft: likewise; None takes the catalogue's partner of the target, and none for an unknown target.
        larger_draft: a second draft, to compare sizes with (`draft="larger"` among a proposer's options); None takes
            the one that ships for the target, if any.
        parallel_draft: a draft trained with mask tokens, for the proposer 'parallel-draft'; likewise, and where none
            ships, `draft` serves if it was trained so.
        foreign_draft: a draft with another tokenizer, for the proposers 'text-draft' and 'shared-tokens'; likewise.
        medusa: Medusa heads trained for the target: a folder or hub id; None takes those that ship for it, if any.
        eagle: an EAGLE head, likewise.
        eagle3: an EAGLE-3 head, likewise.
        mtp: multi-token-prediction modules, likewise.
        block: a head that guesses a block in one pass (DFlash, DSpark), likewise.
        device: auto (cuda, mps, cpu), or one of these; torch's own will do.
        dtype: auto (bfloat16 on cuda, else float32), float32, bfloat16 or float16; likewise.
        graphs: whether passes on cuda are captured as graphs, where the model allows it; see `runtime.cuda_graphs`.
        report: receives the progress of a conversion, 0 to 1, and its current step.
        say: receives, before any weights are read, how much memory they need and how much is free, as a sentence.

    Raises:
        ModelError: with one sentence, if something is missing, too large for the free memory, unsafe (pickle weights,
            remote code), unsuited (a recurrent state that cannot be put back), or does not fit together (different
            tokenizers).
    """
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, chosen_device)
    target = catalogue.BUNDLED if target is None else target
    entry = catalogue.find(str(target))
    target_source = locate(str(target), report)
    draft_source = _draft(draft, entry.draft if entry else None, report)
    larger_source = _draft(larger_draft, entry.larger_draft if entry else None, report)
    parallel_source = _draft(parallel_draft, entry.parallel_draft if entry else None, report)
    foreign_source = _draft(foreign_draft, entry.foreign_draft if entry else None, report)
    drafts = [source for source in (draft_source, larger_source, parallel_source) if source]

    sources = (target_source, *drafts, *([foreign_source] if foreign_source else []))
    for source in sources:
        check_present(source)
    tokenizer = load_tokenizer(target_source)
    parts = {source: draft_vocabulary.of_draft(source, tokenizer) for source in drafts}
    for source in drafts:
        if parts[source] is None:
            same_tokenizer(tokenizer, load_tokenizer(source), target_source, source)
    say(check_memory([need(source, chosen_device, chosen_dtype) for source in sources], chosen_device))
    model = load_model(target_source, chosen_device, chosen_dtype)
    small = load_model(draft_source, chosen_device, chosen_dtype) if draft_source is not None else None
    larger = load_model(larger_source, chosen_device, chosen_dtype) if larger_source is not None else None
    given = {"medusa": medusa, "eagle": eagle, "eagle3": eagle3, "mtp": mtp, "block": block}
    if model.config.is_encoder_decoder and any(given.values()):
        raise ModelError(
            f"Trained heads draft for causal language models, and '{_name(target_source)}' has an encoder. "
            "Load it without heads."
        )
    heads = load_heads(
        model,
        {
            kind: catalogue.present(getattr(entry, kind, None)) if source is None else resolve(str(source))
            for kind, source in given.items()
        },
    )
    names = (_name(target_source), _name(draft_source or ""), _name(larger_source or ""))
    models = assemble(
        tokenizer, model, small, names=names, graphs=graphs, heads=heads, larger_draft=larger,
        draft_vocabularies=(parts.get(draft_source or ""), parts.get(larger_source or "")),
    )  # fmt: skip
    if parallel_source:
        models.parallel_draft = _parallel(
            parallel_source, parts[parallel_source], models, chosen_device, chosen_dtype, graphs
        )
        models.generation = replace(models.generation, notes=tuple(models.notes()))
    if foreign_source:
        other = load_model(foreign_source, chosen_device, chosen_dtype)
        words = load_tokenizer(foreign_source)
        models.foreign_draft = foreign(models, words, other, _name(foreign_source), graphs)
    arrange_weights(models)
    return models


def _parallel(
    source: str, ids: Tensor | None, models: Models, device: torch.device, dtype: torch.dtype, graphs: bool
) -> Model:
    """The draft of the proposer 'parallel-draft'.

    Raises:
        ModelError: if it was not trained with mask tokens.
    """
    vocabulary, name = models.target.vocabulary, _name(source)
    draft = _drafting(name, load_model(source, device, dtype), graphs, ids, vocabulary)
    if draft is None or draft.mask is None:
        raise ModelError(
            f"'{name}' was not trained to guess several tokens in one pass: its config.json names no mask token "
            "('pard_token'). Load it as draft=…, or train one with `python -m training draft --parallel 4`."
        )
    return draft


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
    model = _checked(name, draft, graphs)
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


def arrange_weights(models: Models) -> None:
    """Store the weights for their CPU (see `runtime.cpu_linear`); after loading the heads, which copy rows of them."""
    if isinstance(models.target, HubModel):
        models.target.arrange()
    elif isinstance(models.target, EncoderDecoder):
        arrange(models.target.model)
    other = models.foreign_draft.model if models.foreign_draft else None
    for one in (models.draft, models.larger_draft, other):
        own = one.model if isinstance(one, NarrowModel) else one
        if isinstance(own, HubModel):
            own.arrange(steps=True)  # drafts read one token at a time
    parallel = models.parallel_draft
    own = parallel.model if isinstance(parallel, NarrowModel) else parallel
    if isinstance(own, HubModel):
        own.arrange()  # reads all its guesses in one pass


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
            f"'{_name(name)}' cannot draft for '{_name(names[0])}': one of them has an encoder and the other has "
            "none. Choose a draft of the same family."
        )
    device = target.device
    generation = target.generation_config
    ends = generation.eos_token_id if generation is not None else None
    named = [tokenizer.eos_token_id] if ends is None else ends if isinstance(ends, list | tuple) else [ends]
    known = int(target.get_output_embeddings().weight.shape[0])
    small, larger = (
        _drafting(name, model, graphs, ids, known)
        for (name, model), ids in zip(drafts, draft_vocabularies, strict=True)
    )
    codec = HubCodec(tokenizer, finishing=bool(target.config.is_encoder_decoder))
    turn_end = None if target.config.is_encoder_decoder else codec.turn_end()
    models = Models(
        codec=codec,
        target=_checked(names[0], target, graphs),
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


def _drafting(
    name: str, model: PreTrainedModel | None, graphs: bool, ids: Tensor | None, vocabulary: int
) -> Model | None:
    """A draft as a `Model` over the target's vocabulary."""
    if model is None:
        return None
    checked = _checked(name, model, graphs)
    return checked if ids is None else NarrowModel(checked, ids, vocabulary)


def _checked(name: str, model: PreTrainedModel, graphs: bool) -> Model:
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


def _draft(given: str | Path | None, usual: str | None, report: Report) -> str | None:
    """Where a draft is: the requested one, else the entry's `usual` one."""
    if given:
        return locate(str(given), report)
    if usual is None or catalogue.shipped(usual) is not None:
        return catalogue.present(usual)
    return locate(usual, report)


def same_tokenizer(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, target_name: str, draft_name: str
) -> None:
    """Refuse a draft with a different vocabulary; widths that differ only by padding are fine.

    Raises:
        OtherTokenizer: naming the first difference.
    """
    target_ids, draft_ids = target.get_vocab(), draft.get_vocab()
    if target_ids == draft_ids:
        return
    different = next((text for text, token in target_ids.items() if draft_ids.get(text) != token), None)
    different = different or next(text for text in draft_ids if text not in target_ids)
    raise OtherTokenizer(
        f"'{_name(draft_name)}' cannot draft for '{_name(target_name)}': their tokenizers differ (the target has "
        f"{len(target_ids):,} tokens, the draft {len(draft_ids):,}; {different!r} is one that differs). Choose a draft "
        "of the same family, or load it as foreign_draft=… and use 'text-draft', which splits its text anew, or "
        "'shared-tokens', which guesses only tokens that both have."
    )


def _name(source: str) -> str:
    """A model's name in a trace: a hub id as it is, a folder's last part, never a path."""
    return Path(source).name if Path(source).is_absolute() or Path(source).exists() else source
