"""Tiny random models of the ten architectures, and a tokenizer trained on a few sentences."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from weakref import WeakKeyDictionary

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    OPTConfig,
    PhiConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    StableLmConfig,
)

from specdec_core.models.bundle import HubModel, Models
from specdec_core.models.tokens.translation import ForeignDraft
from specdec_measure.testing import Letters, Syllables

VOCABULARY = 97
PROMPTS = [[5, 9, 3, 22, 7], [1], [40, 41, 40, 41, 40, 41, 40], [96, 0, 50, 12, 12, 60, 31, 2, 77, 8]]

_COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
_OPT = {"ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 256}
_CONFIGS = {
    "gpt2": lambda c: GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, **c),
    "opt": lambda c: OPTConfig(hidden_size=32, word_embed_proj_dim=32, **_OPT | c),
    "llama": lambda c: LlamaConfig(**{"num_key_value_heads": 2} | _SHAPE | c),
    "qwen2": lambda c: Qwen2Config(num_key_value_heads=2, **_SHAPE | c),
    "qwen3": lambda c: Qwen3Config(num_key_value_heads=2, head_dim=8, **_SHAPE | c),
    "mistral": lambda c: MistralConfig(num_key_value_heads=2, sliding_window=None, **_SHAPE | c),
    "gpt-neox": lambda c: GPTNeoXConfig(**_SHAPE | c),
    "phi": lambda c: PhiConfig(**_SHAPE | c),
    "olmo2": lambda c: Olmo2Config(num_key_value_heads=2, **_SHAPE | c),
    "stablelm": lambda c: StableLmConfig(num_key_value_heads=2, **_SHAPE | c),
}
ARCHITECTURES = list(_CONFIGS)


def build(architecture: str, seed: int = 0, **changes: object) -> PreTrainedModel:
    """A random model whose text varies: with the library's own small initial weights it would repeat one token."""
    torch.manual_seed(seed)
    config = _CONFIGS[architecture](_COMMON | changes)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4.0)
    return model


def like(
    model: PreTrainedModel, architecture: str, noise: float = 0.1, seed: int = 1, **changes: object
) -> PreTrainedModel:
    """A draft that partly agrees with `model`: its weights with noise of a `noise`-th of their spread."""
    draft = build(architecture, seed, **changes)
    with torch.no_grad():
        for mine, theirs in zip(draft.parameters(), model.parameters(), strict=True):
            mine.copy_(
                theirs + noise * theirs.std() * torch.randn_like(theirs) if theirs.ndim > 1 else theirs
            )
    return draft


def renumbered(model: PreTrainedModel) -> PreTrainedModel:
    """A copy whose token i is what token V − 1 − i is in `model`."""
    copied = deepcopy(model)
    ends = [copied.get_input_embeddings(), copied.get_output_embeddings()]
    with torch.no_grad():
        for weight in {id(one): one for end in ends for one in end.parameters()}.values():
            weight.copy_(weight.flip(0).clone())
    return copied


def foreign(models: Models, draft: HubModel) -> ForeignDraft:
    """A draft of as many letters as the target, which are numbered from the last to the first."""
    letters = models.codec.names(range(draft.vocabulary))
    target = models.codec, models.target.vocabulary, None
    return ForeignDraft(draft, Syllables(*reversed(letters)), 0, None, target)


@cache
def pair(architecture: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Models:
    """Target and draft of one architecture. Cached: the tests only read it."""
    target = build(architecture)
    draft = like(target, architecture)
    models = Models(
        Letters(VOCABULARY),
        HubModel("tiny target", target.to(device, dtype)),
        HubModel("tiny draft", draft.to(device, dtype)),
    )
    return replace(models, device=device, dtype=str(dtype).removeprefix("torch."))


def module(models: Models) -> PreTrainedModel:
    """The target's module."""
    assert isinstance(models.target, HubModel)
    return models.target.model


Written = dict[Hashable, list[int]]
_written: WeakKeyDictionary[PreTrainedModel, Written] = WeakKeyDictionary()


def generate(model: PreTrainedModel, prompt: list[int], length: int, **options: object) -> list[int]:
    """The oracle: what transformers' own greedy `generate` adds to the prompt. Asked once for each text."""
    asked = repr(sorted(options.items()))

    def write() -> list[int]:
        ids = torch.tensor([prompt], device=model.device)
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False, **options
        )
        return output[0, len(prompt) :].tolist()

    return remembered(model, (tuple(prompt), length, asked), write)


def remembered(model: PreTrainedModel, asked: Hashable, write: Callable[[], list[int]]) -> list[int]:
    """What the model wrote when it was asked for the same before, with the weights and defaults that it has now."""
    weights = tuple((weight.data_ptr(), weight._version) for weight in model.parameters())
    if "forward" in vars(model):  # somebody has put another one in its place
        return write()
    known = _written.setdefault(model, {})
    key = asked, weights, repr(vars(model.generation_config))
    if key not in known:
        known[key] = write()
    return list(known[key])


@cache
def tokenizer(vocabulary: int = 300, bos: bool = False) -> PreTrainedTokenizerFast:
    """Byte-level BPE with few merges, so that most characters outside ASCII are split over several tokens."""
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rust.train_from_iterator(["the cat sat on the mat and the dog sat too " * 4], trainer)
    if bos:
        rust.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=rust, bos_token="<s>", eos_token="</s>")
