"""Load a target with its draft, heads and tokenizer; refuse, with a sentence, what cannot be decoded speculatively."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from specdec_core.foundations.errors import ModelError, OtherTokenizer
from specdec_core.record.schema import EIGHT_BITS
from specdec_core.runtime.machine import EIGHT, choose_bits, choose_device, choose_dtype

from . import catalogue
from .assembling import arrange_weights, as_draft, assemble, foreign, short_name
from .bundle import Model, Models
from .files.hub import check_present, load_model, load_tokenizer
from .files.sources import locate, resolve
from .gguf_files.cache import Report, quiet
from .heads import load_heads
from .memory import check_memory, need
from .tokens import draft_vocabulary

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


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
    weights: str = "auto",
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
        medusa, eagle, eagle3, mtp, block: heads of this kind, trained for the target: a folder or hub id; None takes
            those that ship for it, if any.
        device: auto (cuda, mps, cpu), or one of these; torch's own will do.
        dtype: auto (bfloat16 on cuda, else float32), float32, bfloat16 or float16; likewise. "8-bit" sets `weights`.
        weights: on a CPU "16-bit" (float16 where it holds the weights exactly, else float32), or "8-bit": every weight
            is rounded to one of 255 levels. That is another target, and its name says so; see `runtime.compiled`.
            auto is 8-bit for a target of the catalogue whose distance was measured, unless a `dtype` is named.
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
    name = str(catalogue.BUNDLED if target is None else target)
    entry = catalogue.find(name)
    usual = 8 if dtype == "auto" and entry and entry.eight_bits else 16
    bits = choose_bits(EIGHT if dtype == EIGHT else weights, chosen_device, chosen_dtype, usual)
    drafts = {
        "draft": draft, "larger_draft": larger_draft, "parallel_draft": parallel_draft, "foreign_draft": foreign_draft
    }  # fmt: skip
    heads = {"medusa": medusa, "eagle": eagle, "eagle3": eagle3, "mtp": mtp, "block": block}
    return _load(name, drafts, heads, chosen_device, chosen_dtype, bits, graphs, report, say)


Parts = Mapping[str, str | Path | None]
"""What was asked for of each part, by its name in the catalogue."""


def _load(
    target: str,
    drafts_wanted: Parts,
    heads_wanted: Parts,
    device: torch.device,
    dtype: torch.dtype,
    bits: int,
    graphs: bool,
    report: Report,
    say: Callable[[str], None],
) -> Models:
    entry = catalogue.find(target)
    target_source = locate(target, report)
    draft_source, larger_source, parallel_source, foreign_source = (
        _draft(wanted, getattr(entry, part, None), report) for part, wanted in drafts_wanted.items()
    )
    drafts = [source for source in (draft_source, larger_source, parallel_source) if source]

    sources = (target_source, *drafts, *([foreign_source] if foreign_source else []))
    for source in sources:
        check_present(source)
    tokenizer = load_tokenizer(target_source)
    parts = {source: draft_vocabulary.of_draft(source, tokenizer) for source in drafts}
    for source in drafts:
        if parts[source] is None:
            same_tokenizer(tokenizer, load_tokenizer(source), target_source, source)
    say(check_memory([need(source, device, dtype) for source in sources], device))
    model = load_model(target_source, device, dtype)
    small = load_model(draft_source, device, dtype) if draft_source is not None else None
    larger = load_model(larger_source, device, dtype) if larger_source is not None else None
    if model.config.is_encoder_decoder and any(heads_wanted.values()):
        raise ModelError(
            f"Trained heads draft for causal language models, and '{short_name(target_source)}' has an encoder. "
            "Load it without heads."
        )
    heads = load_heads(
        model,
        {
            kind: catalogue.present(getattr(entry, kind, None)) if source is None else resolve(str(source))
            for kind, source in heads_wanted.items()
        },
        bits,
    )
    called = short_name(target_source) + (EIGHT_BITS if bits == 8 else "")
    names = (called, short_name(draft_source or ""), short_name(larger_source or ""))
    models = assemble(
        tokenizer, model, small, names=names, graphs=graphs, heads=heads, larger_draft=larger,
        draft_vocabularies=(parts.get(draft_source or ""), parts.get(larger_source or "")),
    )  # fmt: skip
    if parallel_source:
        models.parallel_draft = _parallel(
            parallel_source, parts[parallel_source], models, device, dtype, graphs
        )
        models.generation = replace(models.generation, notes=tuple(models.notes()))
    if foreign_source:
        other = load_model(foreign_source, device, dtype)
        words = load_tokenizer(foreign_source)
        models.foreign_draft = foreign(models, words, other, short_name(foreign_source), graphs)
    arrange_weights(models, bits)
    return models


def _parallel(
    source: str, ids: Tensor | None, models: Models, device: torch.device, dtype: torch.dtype, graphs: bool
) -> Model:
    """The draft of the proposer 'parallel-draft'.

    Raises:
        ModelError: if it was not trained with mask tokens.
    """
    vocabulary, name = models.target.vocabulary, short_name(source)
    draft = as_draft(name, load_model(source, device, dtype), graphs, ids, vocabulary)
    if draft is None or draft.mask is None:
        raise ModelError(
            f"'{name}' was not trained to guess several tokens in one pass: its config.json names no mask token "
            "('pard_token'). Load it as draft=…, or train one with `python -m training draft --parallel 4`."
        )
    return draft


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
        f"'{short_name(draft_name)}' cannot draft for '{short_name(target_name)}': their tokenizers differ (the "
        f"target has {len(target_ids):,} tokens, the draft {len(draft_ids):,}; {different!r} is one that differs). "
        "Choose a draft of the same family, or load it as foreign_draft=… and use 'text-draft', which splits its text "
        "anew, or 'shared-tokens', which guesses only tokens that both have."
    )
