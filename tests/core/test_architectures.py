"""Greedy speculative decoding writes what transformers' own `generate` writes, on ten architectures."""

from __future__ import annotations

import pytest

import specdec_core as sd

from .tiny import ARCHITECTURES, PROMPTS, generate, module, pair
from .trees import Oracle

LENGTH = 24
CHAINS = [
    ("none", "speculative-sampling"),
    ("draft-model", "speculative-sampling"),
    ("draft-model", "token-matching"),
    ("draft-model", "exact-match"),
    ("prompt-lookup", "speculative-sampling"),
    ("prompt-lookup", "exact-match"),
]
TREES = [
    ("test-oracle", "speculative-sampling"),
    ("test-oracle", "token-matching"),
    ("test-ranked", "exact-match"),
    ("test-drawn", "speculative-sampling"),
]


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_output_equals_generate(
    architecture: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token for token, for chains and trees, every proposer and rule; and every trace is clean.

    The prompts are taken in turn: each architecture reads each prompt with a chain and with a tree, and each proposer
    and rule, over the architectures, reads all four.

    Catches: wrong position ids, masks or cache rows after a rollback, which change some later token. No tolerance;
    float32 logits of two nearly equal tokens could differ in rounding, so a failure names the two runs' first fork.
    The last check keeps the test honest: draft and target must agree in part, or nothing was rolled back.
    """
    models = pair(architecture, device)
    turn = ARCHITECTURES.index(architecture)
    expected = [generate(module(models), prompt, LENGTH) for prompt in PROMPTS]
    rates: list[float] = []
    for number, (proposer, rule) in [*enumerate(CHAINS), *enumerate(TREES)]:
        which = (turn + number) % len(PROMPTS)
        monkeypatch.setattr(Oracle, "truth", [*PROMPTS[which], *expected[which]])
        settings = sd.Settings(proposer=proposer, rule=rule, draft_length=4, max_new_tokens=LENGTH)
        trace = sd.decode(models, PROMPTS[which], settings)
        assert trace.token_ids == expected[which], (
            f"{architecture}, {proposer}, {rule}, prompt {PROMPTS[which]}"
        )
        assert trace.audit() == []
        if proposer == "draft-model" and trace.stats.acceptance_rate is not None:
            rates.append(trace.stats.acceptance_rate)
    assert min(rates) < 0.9, "the draft is always right: nothing is rolled back"
    assert max(rates) > 0.1, "the draft is always wrong: nothing is kept"


@pytest.mark.parametrize("gamma", [1, 2, 7, 64])
def test_the_draft_length_does_not_change_greedy_text(gamma: int) -> None:
    """Catches: off-by-one in the draft's rewind or in the room before the length limit. Llama, one prompt."""
    models = pair("llama")
    expected = generate(module(models), PROMPTS[0], LENGTH)
    settings = sd.Settings(draft_length=gamma, max_new_tokens=LENGTH)
    trace = sd.decode(models, PROMPTS[0], settings)
    assert trace.token_ids == expected
    assert trace.audit() == []


@pytest.mark.parametrize("length", range(1, 12))
def test_every_length_limit_is_met_exactly(length: int) -> None:
    """Catches: a proposal deeper than the room left, or a bonus token beyond the limit."""
    models = pair("qwen3")
    trace = sd.decode(models, PROMPTS[0], sd.Settings(max_new_tokens=length))
    assert trace.token_ids == generate(module(models), PROMPTS[0], length)
    assert trace.end == "length"
    assert trace.audit() == []
