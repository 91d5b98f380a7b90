"""Several requests in one pass: the texts are those of the requests alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import specdec_core as sd
from specdec_core.foundations.errors import SettingsError
from specdec_core.models.bundle import HubModel
from specdec_measure.batch.decode import decode_batch
from specdec_measure.machines import batches
from specdec_measure.testing import Letters

from . import tiny
from .test_draft_vocabulary import narrow_draft

PROMPTS = [*tiny.PROMPTS, [7, 7, 9, 7, 7], [30, 31, 32]]


def settings(**changes: object) -> sd.Settings:
    return sd.Settings(**{"max_new_tokens": 24, "draft_length": 3, "record": "tokens", **changes})


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("proposer", ["none", "draft-model", "prompt-lookup"])
def test_each_text_is_that_of_its_request_alone(proposer: str, temperature: float) -> None:
    """Catches: a text read at another's position, behind another's mask or in its rows; guesses accepted for one
    and kept for all; random numbers that depend on who else is served."""
    models = tiny.pair("llama")
    given = settings(proposer=proposer, temperature=temperature)
    seeds = range(10, 10 + len(PROMPTS))
    batch = decode_batch(models, PROMPTS, given, seeds=seeds)
    alone = [
        sd.decode(models, prompt, given.but(seed=seed)) for prompt, seed in zip(PROMPTS, seeds, strict=True)
    ]
    assert [one.output.ids for one in batch.texts] == [trace.token_ids for trace in alone]
    assert [one.committed for one in batch.texts] == [
        [len(row.committed.token) for row in trace.rounds] for trace in alone
    ]
    assert [one.stats.accepted for one in batch.texts] == [trace.stats.accepted for trace in alone]
    if proposer == "draft-model":  # ragged, or it shows nothing
        assert len({tuple(one.committed) for one in batch.texts}) > 1


def test_a_batch_reads_other_layers_and_narrow_drafts() -> None:
    """Norms of queries and keys, biases, and a draft that numbers its tokens otherwise. Catches: a layer's part left
    out where several texts are read; a draft given the target's ids."""
    qwen = tiny.pair("qwen3")
    narrow = replace(
        tiny.pair("llama"), target=HubModel("target", target := tiny.build("llama", vocab_size=12))
    )
    for models, prompts in (
        (qwen, tiny.PROMPTS[:3]),
        (replace(narrow, codec=Letters(12), draft=narrow_draft(target)), [[1, 2, 3], [4], [9, 8, 7, 6]]),
    ):
        batch = decode_batch(models, prompts, settings())
        alone = [sd.decode(models, prompt, settings()).token_ids for prompt in prompts]
        assert [one.output.ids for one in batch.texts] == alone
        assert sum(one.stats.proposed for one in batch.texts)


def test_requests_leave_a_batch_as_they_end() -> None:
    """Catches: the speed of a batch measured while it was no longer full, an ended text written on, its place read by
    another."""
    models = tiny.pair("llama")
    alone = [sd.decode(models, prompt, settings()).token_ids for prompt in PROMPTS]
    ending = replace(models, eos=frozenset({alone[0][3]}))
    batch = decode_batch(ending, PROMPTS, settings())
    assert [one.output.ids for one in batch.texts] == [
        sd.decode(ending, prompt, settings()).token_ids for prompt in PROMPTS
    ]
    assert batch.texts[0].end == "eos" and [row.texts for row in batch.rounds] == sorted(
        (row.texts for row in batch.rounds), reverse=True
    )
    assert sum(row.committed for row in batch.rounds) == sum(len(one.output.ids) for one in batch.texts)
    full = [row for row in batch.rounds if row.texts == len(PROMPTS)]
    assert len(full) < len(batch.rounds)
    seconds = sum(sum(row.seconds) for row in full)
    assert batch.tokens_per_second == pytest.approx(sum(row.committed for row in full) / seconds)


@pytest.mark.parametrize(
    ("architecture", "changes", "prompts", "what"),
    [
        ("gpt2", {}, 2, "A batch needs Llama-shaped models"),
        ("llama", {"proposer": "branching"}, 2, "'branching' is possible for one request at a time"),
        ("llama", {"overlap": True}, 2, "'draft-model' with overlap"),
        ("llama", {}, 0, "A batch has 1 to 64 requests, got 0"),
    ],
)
def test_what_a_batch_cannot_do_is_refused(
    architecture: str, changes: dict[str, object], prompts: int, what: str
) -> None:
    """Catches: a tree read by a mask for chains, a model without our forward taken for one with it."""
    with pytest.raises(SettingsError, match=what):
        decode_batch(tiny.pair(architecture), PROMPTS[:prompts], settings(**changes))


def test_the_shipped_measurements_are_of_the_bundled_models() -> None:
    """What lesson 11 and the what-if view show. Catches: a damaged file, one of other models, texts that guessing
    changed."""
    found = batches.read()
    assert (found.target, found.draft) == ("specdec-target", "specdec-draft")
    assert {lane.proposer for lane in found.lanes} == {"draft-model", "prompt-lookup"}
    assert all([one.batch for one in lane.batches] == [1, 2, 4, 8, 16] for lane in found.lanes)
    assert found.texts > 0 and found.other_texts == 0
    assert batches.Batches.model_validate_json(found.model_dump_json()) == found


def test_a_damaged_file_of_measurements_is_a_sentence(tmp_path: Path) -> None:
    """Catches: a page that ends in a stack trace over a file that an operator measured."""
    path = tmp_path / "batches.json"
    with pytest.raises(SettingsError, match=r"batches\.json is missing"):
        batches.read(path)
    path.write_text(batches.read().model_dump_json().replace('"version":1', '"version":2'), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"batches\.json is not a file of measured batches: 'version'"):
        batches.read(path)
