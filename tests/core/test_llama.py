"""Our own forward of Llama-shaped models, against transformers' own on the same weights."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from specdec_core.models.bundle import HubModel
from specdec_core.runtime.architectures.llama import LlamaForward
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.runtime.reader import CausalReader, lean_forward
from specdec_core.tree import TokenTree

from .tiny import build
from .trees import largest_difference
from .walks import walk

CAPACITY = 400
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with biases": {"attention_bias": True, "mlp_bias": True},
    "llama with other angles": {"rope_parameters": _LLAMA3},
    "llama without shared heads": {"num_key_value_heads": 4},
    "llama with one shared head": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
}


def _model(kind: str) -> PreTrainedModel:
    model = build(kind.split()[0], **KINDS[kind])
    with torch.no_grad():  # as made they are 1 and 0, and a forward that forgot them would pass
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.rand_like(parameter) if "norm" in name else torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("stored", ["plain", "packed", "by columns", "halves", "halves alone"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pass_is_that_of_transformers(kind: str, stored: str) -> None:
    """Prompts, chains, trees, steps, kept paths and rewinds on a copy of the model that nothing was done to; logits and
    states within 1e-4 of their size. Catches: a head, sign, angle, norm, bias or row that is off."""
    model = _model(kind)
    if "halves" in stored:
        model.half().float()
    whole = CausalReader(copy.deepcopy(model), CAPACITY)
    lean = lean_forward(model, kind)
    assert lean is not None
    if stored != "plain":
        replace = stored in ("packed", "halves alone")
        assert arrange(model, lean.joined(), steps=stored == "by columns", replace=replace)
    walk(whole, CausalReader(model, CAPACITY, lean=lean), 1e-4)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_the_model_still_computes_and_is_saved_as_before(packed: bool, tmp_path: Path) -> None:
    """Its parameters are views of the joined ones: no second copy, and what one is changed to the other computes with.
    Catches: a model that only our forward can use, weights saved twice or mixed up."""
    model = _model("qwen2")
    before, ids = copy.deepcopy(model), torch.tensor([[1, 5, 9]])
    size = sum(parameter.numel() for parameter in model.parameters())
    lean = lean_forward(model, "qwen2")
    assert lean is not None and sum(parameter.numel() for parameter in model.parameters()) == size
    if packed:
        arrange(model, lean.joined(), replace=True)
    else:
        model.save_pretrained(tmp_path)
        again = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
        assert all(torch.equal(weight, again[name]) for name, weight in before.state_dict().items())
        layer: Any = model.model.layers[1]
        joined = lean.layers[1].attention_input
        assert (
            layer.self_attn.k_proj.weight.untyped_storage().data_ptr()
            == joined.weight.untyped_storage().data_ptr()
        )
    with torch.inference_mode():
        assert largest_difference(model(ids).logits, before(ids).logits) < 1e-4


def test_a_model_loaded_for_decoding_runs_on_it() -> None:
    """And says so to nobody. Catches: a forward that is checked and then not used."""
    model = HubModel("tiny", _model("llama"))
    reader = model.reader(16)
    assert isinstance(reader, CausalReader) and reader.lean is model.lean is not None
    assert reader.first_layers(1).lean is model.lean
    assert HubModel("tiny", model.model, lean=False).lean is None


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_the_first_layers_are_those_of_a_shorter_model(kind: str) -> None:
    """Catches: an early exit that runs every layer, or writes rows of the wrong one."""
    model = _model(kind)
    expected = CausalReader(copy.deepcopy(model), CAPACITY).first_layers(1)
    reader = CausalReader(model, CAPACITY, lean=lean_forward(model, kind)).first_layers(1)
    for one in (expected, reader):
        one.prefill([3, 1, 4])
    tree = TokenTree([5, 6, 7], [-1, -1, 0])
    assert largest_difference(expected.read(2, tree), reader.read(2, tree)) < 1e-4


@pytest.mark.parametrize("least", [2, 4])
def test_a_single_token_that_is_filled_up_shows_one_row(least: int) -> None:
    """What layers read and what logits are computed from; the cache keeps one row. Catches: a listener that gets a row
    too many, or logits of another shape."""
    model = HubModel("tiny", _model("llama"))
    assert model.lean is not None
    seen: list[list[Tensor]] = []
    for rows in (1, least):
        model.lean.least = rows
        reader, got = model.reader(16), []
        reader.prefill([3, 1, 4])
        reader.watch(got.append, (0, 1))
        reader.watch(got.append)
        got.append(reader.read(5, TokenTree()))
        reader.keep([0])
        assert reader.length == 4
        seen.append(got)
    for plain, filled in zip(*seen, strict=True):
        assert plain.shape == filled.shape
        assert largest_difference(plain, filled) < 1e-5


@pytest.mark.parametrize("wrong", ["differs", "fails"])
def test_a_forward_that_is_wrong_is_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One sentence in the log, and transformers' forward. Catches: a model of tomorrow with a detail that ours does
    not know, decoded wrongly."""
    call = LlamaForward.__call__

    def changed(self: LlamaForward, *given: Any) -> tuple[Tensor, Tensor]:
        if wrong == "fails":
            raise AttributeError("no such thing")
        logits, states = call(self, *given)
        return logits, states + 0.01 * states.abs().max()

    monkeypatch.setattr(LlamaForward, "__call__", changed)
    with caplog.at_level(logging.WARNING):
        assert lean_forward(_model("llama"), "tiny") is None
    assert len(caplog.messages) == 1 and "tiny runs on transformers' forward" in caplog.messages[0]


def test_other_models_are_left_as_they_are() -> None:
    """Another architecture, angles that depend on the text's length, a layer that was adapted, weights packed before.
    Catches: a wrong guess by the sizes alone."""

    class Adapted(nn.Linear):
        """As a library for fine-tuning puts it in a layer's place."""

    dynamic = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    adapted: Any = build("llama")
    adapted.model.layers[0].mlp.up_proj = Adapted(32, 64, bias=False)
    packed = build("llama")
    arrange(packed, replace=True)
    for model in (build("olmo2"), build("llama", rope_parameters=dynamic), adapted, packed):
        weights = [weight.data_ptr() for weight in model.parameters()]
        assert lean_forward(model, "other") is None
        assert weights == [weight.data_ptr() for weight in model.parameters()]
