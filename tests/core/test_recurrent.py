"""Models with recurrent layers: chains are exact, by copies of the states; everything else is refused."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    FalconH1Config,
    Lfm2Config,
    Mamba2Config,
    MambaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3NextConfig,
)

import specdec_core as sd
from specdec_core.foundations.errors import ModelError, SettingsError
from specdec_core.models.bundle import HubModel, Models
from specdec_core.models.files.hub import check_config
from specdec_core.runtime.architectures.recurrent import RecurrentReader, state_check
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters

from . import tiny

_SMALL = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_HEADS = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
_MAMBA = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
_DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
}  # fmt: skip
CONFIGS = {
    "mamba2": lambda **c: Mamba2Config(
        num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=1, **_SMALL | c
    ),
    "qwen3-next": lambda **c: Qwen3NextConfig(num_hidden_layers=4, head_dim=8, **_DELTA, **_HEADS, **_SMALL | c),
    "falcon-h1": lambda **c: FalconH1Config(num_hidden_layers=2, head_dim=8, **_MAMBA, **_HEADS, **_SMALL | c),
    "lfm2": lambda **c: Lfm2Config(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], **_HEADS, **_SMALL | c
    ),
}  # fmt: skip


def build(config: PreTrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(3.0)
    return model


@cache
def pair(name: str) -> Models:
    """Target and a draft that mostly agrees with it."""
    target = build(CONFIGS[name]())
    draft = deepcopy(target)
    with torch.no_grad():
        for weight in draft.parameters():
            if weight.ndim > 1:
                weight.add_(0.05 * weight.std() * torch.randn_like(weight))
    return Models(
        Letters(tiny.VOCABULARY), HubModel("recurrent target", target), HubModel("recurrent draft", draft)
    )


@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_chain_writes_what_generate_writes(name: str, proposer: str) -> None:
    """Catches: a rejected token left in a state, kept ones read twice or not at all, a copy that later passes change;
    of target and draft."""
    models = pair(name)
    check_config(tiny.module(models).config, name)
    settings = sd.Settings(proposer=proposer, draft_length=3, max_new_tokens=16)
    rejected = 0
    for prompt in tiny.PROMPTS[::2]:
        trace = sd.decode(models, prompt, settings)
        assert trace.token_ids == tiny.generate(tiny.module(models), prompt, 16)
        assert trace.audit() == []
        rejected += trace.stats.rejected
    assert rejected


@pytest.mark.parametrize("name", CONFIGS)
def test_going_back_leaves_the_states_of_the_text(name: str) -> None:
    """Catches: logits after going back, within a round, to the one before or into the prompt, that are not those of a
    text read at once."""
    model = tiny.module(pair(name))
    reader = RecurrentReader(model)
    text = [5, 9, 3, 22, 7, 40, 41]
    reader.prefill(text[:4])
    reader.read(text[4], TokenTree.chain([text[5], 60, 61]))
    reader.keep([0, 1])
    reader.step(torch.tensor([70, 71]))
    reader.step(torch.tensor([72]))
    for length in (8, 6, 3):
        reader.rewind(length)
        assert reader.length == length
        fresh = RecurrentReader(model)
        fresh.prefill([*text[:6], 70, 71][:length])
        torch.testing.assert_close(
            reader.read(11, TokenTree()), fresh.read(11, TokenTree()), atol=1e-3, rtol=1e-3
        )
        reader.keep([])


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"proposer": "branching"}, "proposes trees, and 'recurrent target' has recurrent layers"),
        ({"proposer": "suffix"}, "proposes trees"),
        ({"proposer": "lookahead"}, "proposes trees"),
        ({"proposer": "early-exit"}, "cannot be shared"),
    ],
)
def test_trees_are_refused_before_decoding(changes: dict[str, object], what: str) -> None:
    """Catches: a tree read as a chain by a layer that ignores the mask."""
    with pytest.raises(SettingsError, match=what):
        sd.stream(pair("mamba2"), [1, 2, 3], sd.Settings(**changes))


def test_a_model_that_forgets_its_state_is_refused() -> None:
    """transformers' Mamba reads several tokens as if they began the text. Catches: drafts verified on that."""
    model = build(MambaConfig(num_hidden_layers=2, state_size=8, **_SMALL))
    with pytest.raises(ModelError, match="several tokens at once differently than one by one"):
        state_check(model, "mamba")


@pytest.mark.parametrize("name", ["mamba2", "qwen3-next"])
def test_such_a_model_loads_and_a_draft_of_it_too(name: str, tmp_path: Path) -> None:
    """From its folder, by the checks of every load. Catches: a good model refused by a check meant for trees."""
    words = tiny.tokenizer(tiny.VOCABULARY + 200)
    model = build(CONFIGS[name](vocab_size=300))
    model.save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    models = sd.load_models(tmp_path / "model", tmp_path / "model", device="cpu")
    trace = sd.decode(models, "the cat", sd.Settings(max_new_tokens=8))
    assert trace.audit() == [] and trace.stats.acceptance_rate == 1.0
