"""Models whose layers see only part of the text, beyond their windows, against transformers' own cache and masks."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    Llama4TextConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)

import specdec_core as sd
from specdec_core.models.assembling import checked
from specdec_core.runtime.reader import CausalReader
from specdec_core.runtime.self_check import window_check
from specdec_core.runtime.windows import Windows
from specdec_measure.testing import Letters

from .matrix import MASK
from .offers import offered
from .tiny import PROMPTS, generate, module, tokenizer
from .tiny_heads import all_heads

USUAL = ("draft-model", "branching", "suffix", "recycling", "early-exit")
WINDOW, LENGTH = 6, 30
_SHAPE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    "tie_word_embeddings": False,  # else Gemma repeats the last token
}
_MIXED = ["sliding_attention", "full_attention"]
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
CONFIGS: dict[str, PreTrainedConfig] = {
    "mistral": MistralConfig(sliding_window=WINDOW, **_SHAPE),
    "qwen2": Qwen2Config(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1, **_SHAPE),
    "gemma2": Gemma2Config(sliding_window=WINDOW, layer_types=_MIXED, query_pre_attn_scalar=8, **_SHAPE),
    "gemma3": Gemma3TextConfig(sliding_window=WINDOW, layer_types=_MIXED, query_pre_attn_scalar=8, **_SHAPE),
    "gpt-oss": GptOssConfig(sliding_window=WINDOW, layer_types=_MIXED, **_EXPERTS, **_SHAPE),
    "llama4": Llama4TextConfig(
        attention_chunk_size=WINDOW,
        layer_types=["chunked_attention", "full_attention"],
        intermediate_size_mlp=64,
        **_EXPERTS,
        **_SHAPE,
    ),
}


def _build(config: PreTrainedConfig, noise: float = 0.0) -> PreTrainedModel:
    """A random model whose text varies; with `noise` it differs a little from the one without."""
    eager = isinstance(config, Gemma2Config | GptOssConfig)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager" if eager else "sdpa").eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.15)
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.add_(noise * 0.15 * torch.randn_like(weight))
    return model


@cache
def _models(kind: str) -> sd.Models:
    draft = checked("draft", _build(CONFIGS[kind], 0.1), False)
    draft.mask = MASK
    target = checked("target", _build(CONFIGS[kind]), False)
    return sd.Models(Letters(97), target, draft, heads=all_heads(97))


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("proposer", USUAL)
def test_greedy_text_beyond_the_window_is_that_of_generate(kind: str, proposer: str) -> None:
    """Chains and trees, thirty tokens with a window of six, so that rejected drafts push rows out of it. Catches: a row
    that is forgotten or seen beyond the window, a distance between rows instead of positions, a mask for the wrong
    layer."""
    prompt = PROMPTS[3]
    settings = sd.Settings(proposer=proposer, max_new_tokens=LENGTH)
    trace = sd.decode(_models(kind), prompt, settings)
    assert trace.token_ids == generate(module(_models(kind)), prompt, LENGTH)
    assert trace.audit() == [] and trace.stats.rejected > 0
    if proposer in ("draft-model", "branching"):
        assert trace.stats.accepted > 5


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_other_proposer_writes_it_too(kind: str) -> None:
    """Catches: a proposer whose pass has another shape (a window of extra tokens, masks, heads' trees) and is seen
    beyond the layers' window, or one that was left out."""
    prompt, models = PROMPTS[3], _models(kind)
    text = generate(module(models), prompt, LENGTH)
    others = [name for name in offered(models) if name not in USUAL]
    assert {"lookahead", "medusa", "eagle", "eagle3", "mtp", "parallel-draft", "prompt-lookup"} <= {*others}
    for name in others:
        trace = sd.decode(models, prompt, sd.Settings(proposer=name, max_new_tokens=LENGTH))
        assert trace.token_ids == text and trace.audit() == [], name


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_window_matters_and_is_checked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the window the same pass gives other logits, and loading finds that. Catches: windows so long that the
    tests above prove nothing, a check that passes anything."""
    model = _build(CONFIGS[kind])
    assert Windows.of(model.config) is not None
    window_check(model, kind)
    wide = Windows(*(Windows.of(model.config).kinds, kind == "mistral", 100, 100))  # type: ignore[union-attr]
    monkeypatch.setattr(Windows, "of", lambda config: wide)
    assert CausalReader(model, 8).windows is wide
    with pytest.raises(sd.ModelError, match="see only part of the text"):
        window_check(model, kind)


def test_a_folder_is_loaded_with_the_attention_it_can_use(tmp_path: Path) -> None:
    """Gemma 2 cannot run on SDPA. Catches: an attention that the model refuses, or that leaves out a part of it."""
    config = copy.deepcopy(CONFIGS["gemma2"])
    config.vocab_size = len(tokenizer())
    _build(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    models = sd.load_models(str(tmp_path), device="cpu", dtype="float32")
    trace = sd.decode(models, "the cat", sd.Settings(proposer="recycling", max_new_tokens=20))
    whole = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert (
        trace.token_ids
        == generate(whole, trace.header.prompt_ids, 20, eos_token_id=None)[: len(trace.token_ids)]
    )
    assert len(trace.token_ids) > 10 and trace.audit() == []
