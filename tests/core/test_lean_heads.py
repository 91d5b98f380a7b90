"""Our own pass of heads, against the head's own forward by transformers' modules on the same weights."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import specdec_core as sd
from specdec_core.models.heads import Continuing, EagleHead, lean
from specdec_core.models.heads.lean import lighten
from specdec_core.runtime.architectures.llama import LlamaLayers
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.runtime.kv import KVMemory

from .test_eagle import PROMPTS, SETTINGS
from .tiny_heads import WIDTH, _layer, _random, eagle3_head, eagle_head, headed, mtp_modules
from .trees import largest_difference

VOCABULARY = 12
KINDS: dict[str, Callable[[], Continuing]] = {
    "eagle": lambda: eagle_head(VOCABULARY),
    "eagle with its own embedding": lambda: eagle_head(VOCABULARY, bias=False, embedding=True),
    "eagle with norms": lambda: _random(EagleHead(_layer(VOCABULARY), False, norms=True), 3),
    "eagle3": lambda: eagle3_head(VOCABULARY),
    "eagle3, norm first": lambda: eagle3_head(VOCABULARY, embedding=True, norm_first=True),
    "mtp": lambda: mtp_modules(VOCABULARY, 3),
}
EMBEDDING = nn.Embedding(VOCABULARY, WIDTH).requires_grad_(False)


def walked(head: Continuing) -> list[Tensor]:
    """The states of every module: a text, a row after it, two levels of a tree, then the text goes on."""
    source, blocked = torch.Generator().manual_seed(5), torch.finfo(torch.float32).min
    found: list[Tensor] = []
    for step in range(head.modules_chained):
        memory = KVMemory(1, 300)

        def read(
            tokens: list[int], places: list[int], shown: Tensor, memory: KVMemory = memory, step: int = step
        ) -> None:
            states = torch.randn(len(tokens), WIDTH, generator=source)
            mask = torch.zeros(len(tokens), memory.length + len(tokens))
            mask[:, mask.shape[1] - shown.shape[1] :].masked_fill_(~shown, blocked)
            found.append(
                head.follow(torch.tensor(tokens), states, torch.tensor(places), mask, EMBEDDING, memory, step)
            )
            memory.extend(len(tokens))

        itself = torch.eye(3, dtype=torch.bool)
        read(
            [index % VOCABULARY for index in range(200)],
            list(range(200)),
            torch.ones(200, 200, dtype=torch.bool).tril(),
        )
        read([7], [200], torch.ones(1, 1, dtype=torch.bool))
        read([1, 2, 3], [201] * 3, itself)
        read([4, 5, 6], [202] * 3, torch.cat((itself[[0, 0, 2]], itself), 1))
        memory.rewind(201)
        read([9, 8], [201, 202], torch.ones(2, 2, dtype=torch.bool).tril())
    return found


@pytest.mark.parametrize("stored", ["plain", "packed", "halves"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pass_is_that_of_transformers(kind: str, stored: str) -> None:
    """Catches: an angle, a norm, a bias, a row of the memory or a visible sibling that is off."""
    head = KINDS[kind]()
    if stored == "halves":
        head.half().float()
    own = copy.deepcopy(head)
    joined = lighten(head, kind, EMBEDDING)
    assert head.lean is not None and joined
    if stored != "plain":
        assert arrange(head, joined, replace=True)
    with torch.inference_mode():
        for expected, found in zip(walked(own), walked(head), strict=True):
            assert largest_difference(expected, found) < 1e-4 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mtp"])
def test_a_decode_is_the_same_with_and_without(kind: str) -> None:
    """Catches: another tree, or a chance of a guess that is off."""
    models = headed("llama", VOCABULARY)
    head = copy.deepcopy(models.heads[kind])
    assert isinstance(head, Continuing)
    lighten(head, kind, models.causal_target.get_input_embeddings())
    settings = SETTINGS.but(proposer=kind)
    plain, light = (
        sd.decode(replace(models, heads={kind: one}), PROMPTS[0], settings)
        for one in (models.heads[kind], head)
    )
    assert [row.nodes.token for row in plain.rounds] == [row.nodes.token for row in light.rounds]
    for one, other in zip(plain.rounds, light.rounds, strict=True):
        assert one.nodes.parent == other.nodes.parent
        assert one.nodes.model_q == pytest.approx(other.nodes.model_q, abs=1e-5)


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mtp"])
def test_heads_of_16_bits_run_on_it_too(kind: str) -> None:
    """Catches: products between 16-bit attention and the rest that lose more than transformers' own."""
    head = KINDS[kind]().to(torch.bfloat16)
    own, embedding = copy.deepcopy(head), copy.deepcopy(EMBEDDING).to(torch.bfloat16)
    assert lighten(head, kind, embedding) and head.lean is not None
    states, tokens = torch.randn(5, WIDTH).to(torch.bfloat16), torch.arange(5)
    mask = torch.full((5, 5), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16).triu(1)
    with torch.inference_mode():
        found, expected = (
            one.follow(tokens, states, tokens, mask, embedding, KVMemory(1, 8)) for one in (head, own)
        )
    assert largest_difference(found.float(), expected.float()) < 0.05 * float(expected.abs().max())


def test_heads_that_are_loaded_run_on_it() -> None:
    """Catches: a pass that is checked and then not used."""
    heads = sd.load_models().heads
    for kind in ("eagle", "eagle3", "mtp"):
        assert heads[kind].lean is not None


@pytest.mark.parametrize(
    ("factor", "why_not"), [(1.01, "ours differ from them"), (None, "ours fail on them (TypeError)")]
)
def test_a_head_that_it_computes_otherwise_keeps_its_own_forward(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, factor: float | None, why_not: str
) -> None:
    """Catches also: a head that cannot be loaded, as these layers do not know it."""
    through = LlamaLayers.through
    monkeypatch.setattr(LlamaLayers, "through", lambda *given: through(*given) * factor)
    head = eagle3_head(VOCABULARY)
    own = copy.deepcopy(head)
    with caplog.at_level(logging.WARNING, logger=lean.__name__):
        assert lighten(head, "EAGLE-3 heads", EMBEDDING) == [] and head.lean is None
    assert f"EAGLE-3 heads run on transformers' layers: {why_not}." in caplog.text
    with torch.inference_mode():
        assert all(torch.equal(*pair) for pair in zip(walked(own), walked(head), strict=True))


def test_layers_of_another_kind_keep_their_own_forward() -> None:
    """Catches: angles that change with the length of the text, and attention nobody has compared."""
    scaled = mtp_modules(VOCABULARY)
    scaled.config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}
    other = mtp_modules(VOCABULARY)
    other.layers[1].self_attn.__class__ = type("Other", (type(other.layers[1].self_attn),), {})
    for head in (scaled, other):
        assert lighten(head, "modules", EMBEDDING) == [] and head.lean is None


def test_a_norm_still_takes_a_batch() -> None:
    """Training's accuracy and the benchmarks run loaded heads in batches. Catches: a norm that takes rows only."""
    head = mtp_modules(VOCABULARY)
    own = copy.deepcopy(head)
    lighten(head, "modules", EMBEDDING)
    tokens, states, places = (
        torch.ones(2, 3, dtype=torch.int64),
        torch.randn(2, 3, WIDTH),
        torch.arange(3).expand(2, 3),
    )
    assert largest_difference(*(one(tokens, states, places, None, EMBEDDING) for one in (own, head))) < 1e-5


def test_a_head_s_weights_are_those_it_was_read_with() -> None:
    """The joined products are views. Catches: a head that is saved with weights mixed up, or holds them twice."""
    head = mtp_modules(VOCABULARY)
    before = copy.deepcopy(head.state_dict())
    lighten(head, "modules", EMBEDDING)
    assert before.keys() == head.state_dict().keys()
    assert all(torch.equal(before[name], weight) for name, weight in head.state_dict().items())
