"""What each proposer proposes. A lossless rule hides a bad proposer: the text stays right, only the speed is gone."""

from __future__ import annotations

import random

import pytest
import torch

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_measure.testing import scripted

from .distributions import wavering
from .tiny import PROMPTS, pair

SETTINGS = sd.Settings(max_new_tokens=40, draft_length=5)


def _texts(trace: sd.Trace) -> list[list[int]]:
    """The text before each round, prompt included."""
    text, texts = list(trace.header.prompt_ids), []
    for row in trace.rounds:
        texts.append(list(text))
        text += row.committed.token
    return texts


def _looked_up(text: list[int], longest: int, length: int) -> list[int]:
    """Prompt lookup by its definition, searched anew: longest suffix first, then the most recent match."""
    for size in range(min(longest, len(text) - 1), 0, -1):
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + length]
    return []


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_prompt_lookup_proposes_what_followed_the_last_match(longest: int, temperature: float) -> None:
    """Every round of 20 runs against a naive search. Catches: a table that misses the newest n-grams, matches the
    suffix with itself, or prefers an old match."""
    settings = SETTINGS.but(
        proposer="prompt-lookup", options={"max_ngram": longest}, temperature=temperature, record="tokens"
    )
    found = 0
    for seed in range(20):
        prompt = [random.Random(seed).randrange(4) for _ in range(1 + seed)]
        trace = sd.decode(scripted(wavering(4, seed, 3.0)), prompt, settings.but(seed=seed))
        written = 0
        for text, row in zip(_texts(trace), trace.rounds, strict=True):
            expected = _looked_up(text, longest, min(5, 40 - written - 1))
            assert row.nodes.token == expected
            assert row.nodes.parent == list(range(-1, len(expected) - 1))
            if expected:
                start, size = row.note["match_start"], row.note["match_length"]
                assert isinstance(start, int) and isinstance(size, int)
                assert text[start : start + size] == text[-size:]
            found += bool(expected)
            written += len(row.committed.token)
    assert found > 100


def test_the_draft_model_proposes_its_own_greedy_text() -> None:
    """Every token of a chain is the likeliest after the text and the chain before it, by a plain transformers pass of
    the draft, and the chain cost as many passes. Catches: a draft whose memory is a token behind, ahead, or holds a
    rejected token; the text would still be right, and slow."""
    models = pair("llama")
    assert isinstance(models.draft, HubModel)
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, SETTINGS)
        for text, row in zip(_texts(trace), trace.rounds, strict=True):
            length = len(row.nodes.token)
            assert row.draft_passes == length
            with torch.inference_mode():
                logits = models.draft.model(torch.tensor([[*text, *row.nodes.token]])).logits[
                    0, len(text) - 1 :
                ]
            assert row.nodes.token == logits[:length].argmax(-1).tolist()
    assert trace.rounds[0].nodes.parent == [-1, 0, 1, 2, 3]


def test_a_draft_that_is_the_target_is_always_right() -> None:
    """At every temperature, with every lossless rule that looks at q: p = q, so nothing is rejected (up to rounding
    at the coin). Catches: p and q taken one position apart."""
    models = pair("gpt2")
    twins = sd.Models(models.codec, models.target, models.target)
    for temperature in (0.0, 0.7, 2.0):
        trace = sd.decode(twins, PROMPTS[0], SETTINGS.but(temperature=temperature, top_k=20, top_p=0.9))
        assert trace.stats.rejected == 0
        assert trace.stats.target_passes == 7  # 40 tokens in rounds of six
