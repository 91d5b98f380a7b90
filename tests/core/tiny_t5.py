"""Tiny random encoder–decoder models of the T5 family, and their oracle."""

from __future__ import annotations

from functools import cache

import torch
from transformers import AutoModelForSeq2SeqLM, MT5Config, PreTrainedModel, T5Config

from specdec_core.models.bundle import Models
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_measure.testing import Letters

from .tiny import VOCABULARY, remembered

KINDS = ["t5", "t5-v1.1", "mt5"]
# Few buckets and short distances, so that nearly every distance has a bias of its own and some share one. The
# decoder has another depth than the encoder.
_SHAPE = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 1,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 6,
    "relative_attention_max_distance": 10,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": None,
}


def tiny_t5(kind: str, seed: int = 7, **changes: object) -> PreTrainedModel:
    """A random model whose text varies: T5 with tied and scaled output, v1.1 gated with its own output, or mT5."""
    torch.manual_seed(seed)
    shape = {"vocab_size": VOCABULARY, **_SHAPE, **changes}
    gated = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = {
        "t5": lambda: T5Config(**shape),
        "t5-v1.1": lambda: T5Config(**gated, **shape),
        "mt5": lambda: MT5Config(**shape),
    }[kind]()
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.mul_(0.3 if name == "shared.weight" else 10.0 if "relative" in name else 4.0)
        if kind == "t5-v1.1":  # however this version of transformers reads `tie_word_embeddings`
            model.lm_head.weight = torch.nn.Parameter(0.5 * torch.randn(config.vocab_size, config.d_model))
    return model


def noisy_t5(model: PreTrainedModel, kind: str, noise: float = 0.02, **changes: object) -> PreTrainedModel:
    """A draft that partly agrees with `model`."""
    draft = tiny_t5(kind, seed=1, **changes)
    with torch.no_grad():
        for mine, theirs in zip(draft.parameters(), model.parameters(), strict=True):
            mine.copy_(
                theirs + noise * theirs.std() * torch.randn_like(theirs) if theirs.ndim > 1 else theirs
            )
    return draft


@cache
def pair_t5(kind: str, device: str = "cpu") -> Models:
    """Target and draft of one kind. Cached: the tests only read it."""
    target = tiny_t5(kind)
    draft = noisy_t5(target, kind)
    return Models(
        Letters(VOCABULARY),
        EncoderDecoder("tiny target", target.to(device)),
        EncoderDecoder("tiny draft", draft.to(device)),
        device=device,
    )


def module_t5(models: Models) -> PreTrainedModel:
    """The target's module."""
    assert isinstance(models.target, EncoderDecoder)
    return models.target.model


def generate_t5(model: PreTrainedModel, source: list[int], length: int, **options: object) -> list[int]:
    """The oracle: transformers' greedy text without the start token. Asked once for each text."""

    def write() -> list[int]:
        ids = torch.tensor([source], device=model.device)
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False, use_cache=False,
            **options,
        )  # fmt: skip
        return output[0, 1:].tolist()

    return remembered(model, (tuple(source), length, repr(options)), write)
