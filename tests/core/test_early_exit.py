"""The target's first layers as its draft: right logits, nothing stored twice, and the same text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

import specdec_core as sd
from specdec_core import lengths as draft_length
from specdec_core.engine.events import Step
from specdec_core.engine.plan import Plan
from specdec_core.lengths import FixedLength
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import Context
from specdec_core.proposers.draft.early_exit import EarlyExit
from specdec_core.runtime.kv import KVLayer
from specdec_core.runtime.layers import first_layers
from specdec_core.runtime.reader import CausalReader
from specdec_core.sampling import Warp
from specdec_measure.testing import Letters, scripted

from .distributions import chances, exact_distribution, model_next_probs, samples, wavering
from .tiny import ARCHITECTURES, PROMPTS, VOCABULARY, build, generate, module, pair

NORMS = {
    "gpt2": "transformer.ln_f",
    "opt": "model.decoder.final_layer_norm",
    "gpt-neox": "gpt_neox.final_layer_norm",
    "phi": "model.final_layernorm",
}


def exiting(layer: int = 0, **changes: object) -> sd.Settings:
    """Settings with this proposer."""
    return sd.Settings(
        **{"proposer": "early-exit", "options": {"layer": layer}, "max_new_tokens": 30, **changes}
    )


def deep(architecture: str) -> PreTrainedModel:
    """Four layers, where the test models let themselves be deepened."""
    return build(architecture) if architecture == "gpt2" else build(architecture, num_hidden_layers=4)


def logits_at(model: PreTrainedModel, architecture: str, layer: int, text: list[int]) -> Tensor:
    """By the definition: the whole model's hidden state after `layer` layers, its final norm, its output matrix."""
    norm = model.get_submodule(NORMS.get(architecture, "model.norm"))
    with torch.inference_mode():
        states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
        logits: Tensor = model.get_output_embeddings()(norm(states[layer]))[0]
    return logits


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_exit_answers_like_the_whole_models_hidden_state(architecture: str) -> None:
    """Catches: a layer too many or too few, a missing final norm, or a model changed by taking part of it. Tolerance
    1e-5; the whole model's logits differ from the exit's by more than 0.1."""
    model, ids = deep(architecture), torch.tensor([PROMPTS[0]])
    layer = model.config.num_hidden_layers // 2
    with torch.inference_mode():
        whole = model(ids).logits[0]
        found = first_layers(model, layer)(ids).logits[0]
        assert float((found - logits_at(model, architecture, layer, PROMPTS[0])).abs().max()) <= 1e-5
        assert float((found - whole).abs().max()) > 0.1
        assert torch.equal(model(ids).logits[0], whole)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_output_equals_generate(architecture: str) -> None:
    """From the first layer, two prompts in turn. Catches: rows of the exit left in the target's memory. No tolerance,
    see test_architectures. With all layers nothing is ever rejected: the draft is the target."""
    models, turn = pair(architecture), ARCHITECTURES.index(architecture)
    for which, all_layers in ((turn % 4, True), ((turn + 1) % 4, False)):
        prompt = PROMPTS[which]
        expected = generate(module(models), prompt, 30)
        trace = sd.decode(models, prompt, exiting(1))
        assert trace.token_ids == expected
        assert trace.audit() == []
        if all_layers:
            everything = sd.decode(models, prompt, exiting(2))
            assert everything.token_ids == expected
            assert everything.stats.acceptance_rate == 1.0


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gpt-neox"])
def test_every_chain_is_the_exits_own_greedy_text(architecture: str) -> None:
    """After every round, against hidden states of fresh passes over the whole text. Catches: an exit whose shared
    memory is a token behind or ahead, or holds rejected rows; the text would still be right, and slow."""
    model = deep(architecture)
    models = sd.Models(Letters(VOCABULARY), HubModel("tiny target", model))
    trace = sd.decode(models, PROMPTS[0], exiting(2, draft_length=3))
    text = list(PROMPTS[0])
    for row in trace.rounds:
        for depth, token in enumerate(row.nodes.token):
            logits = logits_at(model, architecture, 2, [*text, *row.nodes.token[:depth]])[-1]
            assert token == int(logits.argmax())
        text += row.committed.token
        assert row.note == ({"exit_layer": 2} if row.nodes.token else {})
    assert 0.0 < (trace.stats.acceptance_rate or 0.0) < 1.0, "nothing was kept, or nothing rolled back"


def blocks(reader: CausalReader) -> list[int]:
    """Where the rows of a reader's layers stand in memory."""
    addresses = []
    for layer in reader.memory.layers:
        assert isinstance(layer, KVLayer) and layer.block_keys is not None and layer.block_values is not None
        addresses += [layer.block_keys.data_ptr(), layer.block_values.data_ptr()]
    return addresses


@pytest.mark.parametrize("prompt", [PROMPTS[0], [1]], ids=["prompt", "one token"])
def test_nothing_is_stored_twice(prompt: list[int]) -> None:
    """The exit's parameters are the target's and its KV rows are those of the target's first layers, also where the
    draft is the first to write any. Catches: a copied weight, a second memory."""
    models = pair("llama")
    plan = Plan.make(models, prompt, exiting(1))
    assert isinstance(plan.proposer, EarlyExit) and isinstance(plan.target, CausalReader)
    plan.target.prefill(prompt[:-1])
    plan.proposer.propose(replace(plan.start_context, limit=4, length=4, room=4))
    plan.target.read(prompt[-1], sd.TokenTree())
    assert blocks(plan.proposer.exit) == blocks(plan.target)[:2]
    assert plan.target.length == len(prompt) - 1
    own = {id(weight) for weight in plan.proposer.exit.model.parameters()}
    shared = {id(weight) for weight in module(models).parameters()}
    assert own < shared
    assert module(models).config.num_hidden_layers == 2


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """A Llama of two layers and six tokens, its distribution from plain transformers passes. 130 texts of four tokens,
    and more in test_distribution_matrix. Catches: an exit that writes into rows the target still needs. False alarm
    1e-4."""
    models = sd.Models(Letters(6), HubModel("tiny target", build("llama", vocab_size=6)))
    assert isinstance(models.target, HubModel)
    settings = exiting(1, draft_length=2, temperature=1.5, max_new_tokens=4, record="off")
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 4, Warp(1.5))
    assert chances(samples(models, [1, 2, 3], {(): settings}, 130), expected)["all"] > 1e-4


class StopsAfterTwo(FixedLength):
    """Says no after the second token."""

    name = "test-stops-after-two"
    can_stop = True

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        assert 0.0 <= confidence <= 1.0
        return drafted < 2


def test_the_length_policy_is_asked_between_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a chain drafted to its end whatever the policy says."""
    monkeypatch.setitem(draft_length.LENGTH_POLICIES, StopsAfterTwo.name, StopsAfterTwo)
    trace = sd.decode(pair("llama"), PROMPTS[0], exiting(1, length_policy=StopsAfterTwo.name, draft_length=6))
    assert max(len(row.nodes.token) for row in trace.rounds) == 2
    assert trace.audit() == []


def test_two_lanes_do_not_share_rows() -> None:
    """A race of two exits on one model. Catches: a memory that hangs on the model instead of on the lane."""
    models = pair("gpt2")
    expected = generate(module(models), PROMPTS[0], 30)
    texts: dict[int, list[int]] = {0: [], 1: []}
    for event in sd.race(models, PROMPTS[0], [exiting(1), exiting(1, draft_length=2)]):
        if isinstance(event, Step):
            texts[event.lane] += event.tokens
    assert texts == {0: expected, 1: expected}


def test_what_has_no_such_layers_is_refused() -> None:
    """Before the first event, with a sentence. Catches: an exit after the last layer, and a traceback for a model
    whose layers stand elsewhere."""
    with pytest.raises(sd.SettingsError, match="is 3, but the target has 2 layers; choose 1 to 2"):
        sd.stream(pair("llama"), PROMPTS[0], exiting(3))
    with pytest.raises(sd.SettingsError, match="first layers of the target"):
        sd.stream(scripted(wavering(3, seed=1)), [0], exiting())
    odd: Any = deep("llama")
    odd.config.num_hidden_layers = 5
    with pytest.raises(sd.SettingsError, match="finds 0 lists of 5 layers in 'llama'"):
        first_layers(odd, 2)
