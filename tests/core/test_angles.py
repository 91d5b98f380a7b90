"""Rotary positions that are scaled: across the border the text is `generate`'s own, whatever is read in one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Phi3Config, PreTrainedModel

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.runtime.angles import Angles, read_anew, rotary
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters

from .matrix import MASK, proposals
from .tiny import VOCABULARY, build, foreign, generate, like, renumbered
from .tiny_heads import all_heads

BORDER = 24  # tokens of the first window
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [6.0] * 4}
ROPES: dict[str, dict[str, Any]] = {
    "longrope": LONG | {"factor": 8.0, "original_max_position_embeddings": BORDER},
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": BORDER},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": BORDER},
    "linear": {"rope_type": "linear", "factor": 8.0},
    "dynamic": {"rope_type": "dynamic", "factor": 8.0},
}
KINDS = [*ROPES, "phi3"]
LENGTH = 12


def rope(kind: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model whose angles are scaled beyond `BORDER` tokens; "phi3" reads the text anew there."""
    if kind != "phi3":
        sizes = {"max_position_embeddings": BORDER if kind == "dynamic" else 8 * BORDER}
        return build("llama", seed, rope_parameters=ROPES[kind] | {"rope_theta": 1e4}, **sizes | changes)
    torch.manual_seed(seed)
    config = Phi3Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8 * BORDER, original_max_position_embeddings=BORDER,
        rope_parameters=ROPES["longrope"] | {"rope_theta": 1e4}, pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4.0)
    return model


def noisy(model: PreTrainedModel, kind: str) -> PreTrainedModel:
    """A draft that partly agrees, with angles of the same kind."""
    draft = rope(kind, 1)
    with torch.no_grad():
        for mine, theirs in zip(draft.parameters(), model.parameters(), strict=True):
            mine.copy_(theirs + 0.1 * theirs.std() * torch.randn_like(theirs) if theirs.ndim > 1 else theirs)
    return draft


@cache
def whole(kind: str) -> sd.Models:
    """A target of that kind with everything a proposer may need."""
    target = rope(kind)
    draft = noisy(target, kind)
    models = sd.Models(
        Letters(VOCABULARY), HubModel("target", target), HubModel("draft", draft),
        heads=all_heads(VOCABULARY), larger_draft=HubModel("larger draft", target),
    )  # fmt: skip
    assert isinstance(models.draft, HubModel)
    models.draft.mask = MASK
    models.foreign_draft = foreign(models, HubModel("foreign draft", renumbered(draft)))
    return models


def prompt(length: int) -> list[int]:
    return [(7 * at * at + 3 * at) % (VOCABULARY - 3) + 3 for at in range(length)]


@cache
def wanted(kind: str, length: int, written: int = LENGTH) -> list[int]:
    """What `generate` writes with a model that has read no other text: transformers keeps the longest one's angles."""
    return generate(rope(kind), prompt(length), written)


@pytest.mark.parametrize("kind", KINDS)
def test_every_proposer_writes_the_text_of_generate_across_the_border(kind: str) -> None:
    """Catches: angles that depend on how many tokens a pass reads, and a cache that keeps those of the other window."""
    models = whole(kind)
    for name, options in proposals(models):
        for length in (BORDER - 5, BORDER):
            settings = sd.Settings(
                proposer=name, options=options, draft_length=4, max_new_tokens=LENGTH, record="off"
            )
            trace = sd.decode(models, prompt(length), settings)
            assert trace.token_ids == wanted(kind, length), (name, options, length)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [8, 3, 2, 1, 0, -1, -5])
def test_every_draft_length_writes_the_text_of_generate(kind: str, before: int) -> None:
    """Catches: a round that is right only where it begins or ends at the border."""
    models, length = whole(kind), BORDER - before
    for name in ("draft-model", "prompt-lookup", "branching", "early-exit"):
        for gamma in range(1, 9):
            settings = sd.Settings(proposer=name, draft_length=gamma, max_new_tokens=LENGTH, record="off")
            assert sd.decode(models, prompt(length), settings).token_ids == wanted(kind, length), (
                name,
                gamma,
            )


def test_a_copy_of_the_target_is_accepted_on_both_sides() -> None:
    """Catches: a draft whose cache keeps the angles of the first window, so that it guesses badly from there on."""
    for kind in ("longrope", "dynamic", "phi3"):
        models = sd.Models(Letters(VOCABULARY), HubModel("target", rope(kind)), HubModel("draft", rope(kind)))
        settings = sd.Settings(proposer="draft-model", draft_length=3, max_new_tokens=40)
        trace = sd.decode(models, prompt(BORDER - 10), settings)
        refused = sum(row.nodes.verdict.count("rejected") for row in trace.rounds)
        assert refused == 0, kind


def test_overlap_and_sampling_cross_the_border() -> None:
    """Catches: what was drafted ahead beyond the border, and a distribution that differs from plain decoding's."""
    for kind in ("dynamic", "phi3"):
        models = whole(kind)
        settings = sd.Settings(proposer="draft-model", draft_length=4, max_new_tokens=20, overlap=True)
        assert sd.decode(models, prompt(BORDER - 6), settings).token_ids == wanted(kind, BORDER - 6, 20)
        sampled = settings.but(temperature=1.0, overlap=False, rule="token-matching", seed=3)
        plain = sampled.but(proposer="none")
        one, other = (sd.decode(models, prompt(BORDER - 6), each) for each in (sampled, plain))
        assert len(one.token_ids) == len(other.token_ids) == 20


@pytest.mark.parametrize("kind", ["longrope", "dynamic", "phi3"])
def test_a_tree_across_the_border_is_read_as_its_paths(kind: str) -> None:
    """Catches: rows whose angles follow the deepest row of the pass."""
    model = rope(kind)
    tree = TokenTree([5, 6, 7, 8, 9, 10], [-1, -1, 0, 2, 3, 1])
    rows = []
    for read in (tree, TokenTree.chain([5, 7, 8, 9]), TokenTree.chain([6, 10])):
        reader = HubModel("target", model).reader(64)
        reader.prefill(prompt(BORDER - 3))
        rows.append(reader.read(4, read))
    assert torch.allclose(rows[0][[0, 1, 3, 4, 5]], rows[1], atol=1e-4)
    assert torch.allclose(rows[0][[0, 2, 6]], rows[2], atol=1e-4)


def test_what_was_read_before_changes_no_angle() -> None:
    """Catches: angles taken from the state that a longer text left in the model."""
    used, fresh = rope("dynamic"), rope("dynamic")
    with torch.inference_mode():
        used(torch.tensor([prompt(4 * BORDER)]))
    one, other = (
        sd.decode(
            sd.Models(Letters(VOCABULARY), HubModel("target", model)), prompt(BORDER),
            sd.Settings(proposer="none", max_new_tokens=LENGTH),
        ).token_ids
        for model in (used, fresh)
    )  # fmt: skip
    assert one == other == wanted("dynamic", BORDER)


def test_who_reads_the_text_anew_is_asked_of_the_model_itself() -> None:
    """Catches: a list of model names in place of what `generate` does, and a reader for models that need none."""
    assert read_anew(rope("phi3")) == BORDER
    assert read_anew(rope("longrope")) is None
    assert Angles.of(rope("yarn")) is None
    assert [type(one).__name__ for one in rotary(rope("dynamic"))] == ["LlamaRotaryEmbedding"]


def test_a_draft_with_other_angles_changes_no_text() -> None:
    """Catches: a draft of such a kind that fails, or reads the target's angles."""
    for kind in ("dynamic", "phi3"):
        target = build("llama", max_position_embeddings=8 * BORDER)
        models = sd.Models(Letters(VOCABULARY), HubModel("target", target), HubModel("draft", rope(kind)))
        models = replace(
            models, larger_draft=HubModel("larger", like(target, "llama", max_position_embeddings=192))
        )
        expected = generate(target, prompt(BORDER - 4), 20)
        for name in ("draft-model", "branching"):
            settings = sd.Settings(proposer=name, max_new_tokens=20)
            assert sd.decode(models, prompt(BORDER - 4), settings).token_ids == expected
