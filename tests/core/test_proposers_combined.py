"""Look-up and model in one lane: who answers, that nothing is lost between them, and that q is exact."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import specdec_core as sd
from specdec_core.engine.choice import check
from specdec_core.proposers.combined import MODELS
from specdec_core.sampling import Warp
from specdec_measure.testing import scripted

from .distributions import DRAFT, TARGET, after, chances, exact_distribution, samples
from .matrix import whole
from .tiny import PROMPTS, generate, module

FALSE_ALARM = 1e-4
REPEATING = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6]


@cache
def _generated(length: int) -> list[int]:
    return generate(module(whole("llama")), REPEATING, length)


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("lookup", ["longest", "leading", "walk", "suffix"])
@pytest.mark.parametrize("model", MODELS)
def test_the_greedy_text_is_the_targets(model: str, lookup: str, least: int) -> None:
    """Against transformers' `generate`, on a text that repeats itself for a while. Catches: a draft's cache or a head's
    memory out of step after rounds in which the other one proposed, a state that is read twice."""
    settings = sd.Settings(
        proposer="combined", options={"model": model, "lookup": lookup, "least": least}, max_new_tokens=28
    )
    trace = sd.decode(whole("llama"), REPEATING, settings)
    assert trace.token_ids == _generated(28)
    assert trace.audit() == []


def _answers(trace: sd.Trace) -> list[Any]:
    return [row.note.get("by") for row in trace.rounds]


def test_the_first_that_answers_proposes() -> None:
    """Each round of a real decode, worked out from the text before it: whether so many tokens occurred before. Catches:
    a model asked first, a threshold off by one, a look-up that sees the guesses."""
    cycle = scripted(
        lambda text: [float(token == (len(text) * 7 % 11 if len(text) < 24 else len(text) % 3)) for token in range(11)],
        TARGET_OF_11,
    )  # fmt: skip
    for least in (1, 2, 4):
        settings = sd.Settings(proposer="combined", options={"least": least}, max_new_tokens=40)
        trace = sd.decode(cycle, [0], settings)
        text, seen = [0], set()
        for row in trace.rounds[:-1]:
            ending = text[-least:]
            earlier = [text[at : at + least] for at in range(len(text) - least)]
            expected = "prompt-lookup" if len(ending) == least and ending in earlier else "draft-model"
            assert row.note["by"] == expected, (least, text)
            assert (row.draft_passes == 0) == (expected == "prompt-lookup")
            seen.add(expected)
            text += row.committed.token
        assert seen == {"prompt-lookup", "draft-model"}


def TARGET_OF_11(text: tuple[int, ...]) -> list[float]:
    """A draft that guesses the token after the last one."""
    return [float(token == (text[-1] + 1 if text else 0) % 11) for token in range(11)]


def test_a_draft_catches_up_with_what_was_looked_up() -> None:
    """Its guesses after looked-up rounds against those of a fresh decode from the same text. Catches: rows of a draft
    that are those of another text, with nothing in the output to tell."""
    settings = sd.Settings(proposer="combined", options={"least": 2}, max_new_tokens=30)
    trace, text = sd.decode(whole("llama"), REPEATING, settings), list(REPEATING)
    compared = 0
    for before, row in zip([None, *trace.rounds], trace.rounds, strict=False):
        if before is not None and before.note["by"] == "prompt-lookup" and row.note["by"] == "draft-model":
            fresh = sd.decode(whole("llama"), text, sd.Settings(max_new_tokens=30)).rounds[0]
            count = len(row.nodes.token)
            assert row.nodes.token == fresh.nodes.token[:count]
            assert row.nodes.model_q == pytest.approx(fresh.nodes.model_q[:count], abs=1e-5)
            compared += 1
        text += row.committed.token
    assert compared


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """Scripted models; drawn guesses and looked-up ones in turn, 100 texts for each threshold. Catches: a q that is the
    other one's. False alarm 1e-4."""
    prompt = [0, 1, 2, 0, 1, 0]
    cases = {
        ("combined", str(least)): sd.Settings(
            temperature=1.0, max_new_tokens=5, record="off", proposer="combined", options={"least": least}
        )
        for least in (1, 2)
    }
    written = samples(scripted(TARGET, DRAFT), prompt, cases, 100)
    found = chances(written, exact_distribution(TARGET, prompt, 5, Warp(1.0)), after(prompt, DRAFT))
    assert min(found.values()) > FALSE_ALARM, found


def test_a_looked_up_round_is_a_point_mass_and_a_drafted_one_is_not() -> None:
    """The recorded q at temperature 1. Catches: a look-up's guesses judged by the draft's probabilities."""
    settings = sd.Settings(
        temperature=1.0, max_new_tokens=40, proposer="combined", options={"least": 4}, seed=3
    )
    trace = sd.decode(scripted(TARGET, DRAFT), [0, 1, 2, 0, 1], settings)
    kinds = set()
    for row in trace.rounds:
        if not row.nodes.token:
            continue
        fixed = all(value == 1.0 for value in row.nodes.q or [])
        assert fixed == (row.note["by"] == "prompt-lookup")
        kinds.add(fixed)
    assert kinds == {True, False}


def test_it_needs_what_its_model_needs() -> None:
    """Catches: heads that are asked for too late, a draft demanded by a pair that has none, tree options of another."""
    needs = {model: check(_settings(model=model)).proposer.needs for model in MODELS}
    assert needs["draft-model"] == ("draft",) and needs["mtp"] == MODELS["mtp"].needs
    bare = scripted(TARGET)
    with pytest.raises(sd.SettingsError, match="needs a draft model"):
        sd.decode(bare, [0], _settings())
    with pytest.raises(sd.SettingsError, match="hidden states"):
        sd.decode(scripted(TARGET, DRAFT), [0], _settings(model="eagle"))
    with pytest.raises(sd.SettingsError, match="nodes"):
        sd.decode(scripted(TARGET, DRAFT), [0], _settings(model="eagle", tree=[5, 4, 0]))
    shape = check(_settings(model="eagle", tree=[3, 2, 5], copies=9)).shape
    assert (shape.drafts, shape.max_nodes) == ("fixed tree", 9)


def _settings(**options: Any) -> sd.Settings:
    return sd.Settings(proposer="combined", options=options, rule="speculative-sampling", max_new_tokens=8)


def test_prompts_without_repeats_leave_the_model_alone() -> None:
    """Catches: an empty look-up proposed instead of the model's guess."""
    trace = sd.decode(whole("llama"), PROMPTS[0], _settings(least=16))
    assert set(_answers(trace)) <= {"draft-model", None} and "draft-model" in _answers(trace)
