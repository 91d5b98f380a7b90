"""Blind guesses: what is proposed, what it was drawn from, and that a bad proposer costs time and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import chisquare

import specdec_core as sd
from specdec_core.sampling import Warp
from specdec_measure.testing import scripted

from .distributions import chances, exact_distribution, samples, wavering
from .tiny import PROMPTS, generate, module, pair

FALSE_ALARM = 1e-4
GUESSES = ["uniform", "unigram", "repeat-last"]
BLIND = sd.Settings(proposer="blind", draft_length=3, max_new_tokens=40)


def _proposals(trace: sd.Trace) -> list[tuple[list[int], sd.Round]]:
    """The text before each round, prompt included, and the round."""
    text, rounds = list(trace.header.prompt_ids), []
    for row in trace.rounds:
        rounds.append((list(text), row))
        text += row.committed.token
    return rounds


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """110 texts of four tokens of each guess with either rule, one by one and together; false alarm 1e-4.
    Catches: a q that is not what the tokens were drawn from."""
    target, prompt = wavering(3, seed=5), [0, 0, 0, 0, 1]
    settings = BLIND.but(temperature=1.0, max_new_tokens=4, draft_length=2, record="off")
    cases = {
        (guess, rule): settings.but(rule=rule, options={"guess": guess})
        for guess in GUESSES
        for rule in ("speculative-sampling", "token-matching")
    }
    found = chances(
        samples(scripted(target), prompt, cases, 110), exact_distribution(target, prompt, 4, Warp(1.0))
    )
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "qwen3"])
def test_greedy_text_is_that_of_generate(architecture: str, guess: str) -> None:
    """Catches: a guess that is committed because of its place, and a chain beyond the length limit."""
    models = pair(architecture)
    for prompt in PROMPTS[:2]:
        trace = sd.decode(models, prompt, BLIND.but(options={"guess": guess}, max_new_tokens=20))
        assert trace.token_ids == generate(module(models), prompt, 20)
        assert trace.audit() == []
        assert trace.stats.draft_passes == 0


def test_repeat_last_repeats_the_last_token() -> None:
    """Catches: a repeated token that is not the root, which greedy equality would hide."""
    trace = sd.decode(scripted(wavering(5, 1)), [0, 1], BLIND.but(options={"guess": "repeat-last"}))
    for text, row in _proposals(trace):
        assert row.nodes.token == [text[-1]] * min(3, 40 - (len(text) - 2) - 1)
    assert trace.rounds[0].nodes.q == [1.0] * 3


def test_unigram_proposes_the_most_frequent_token_at_temperature_0() -> None:
    """A count by hand, of equal ones the lowest id. Catches: counts without the prompt or without the newest token."""
    trace = sd.decode(scripted(wavering(4, 2)), [3, 3, 1], BLIND.but(options={"guess": "unigram"}))
    for text, row in _proposals(trace):
        counts = Counter(text)
        best = min(token for token in counts if counts[token] == max(counts.values()))
        assert set(row.nodes.token) <= {best}
    assert trace.rounds[0].nodes.token == [3, 3, 3]


def test_unigram_says_the_smoothed_frequencies_it_drew_from() -> None:
    """q of every node is (count + 1/V) / (tokens + 1). Catches: another smoothing, a warped q, and a q of zero."""
    settings = BLIND.but(options={"guess": "unigram"}, temperature=0.6, top_k=2)
    trace = sd.decode(scripted(wavering(4, 2)), [3, 3, 1], settings)
    for text, row in _proposals(trace):
        assert row.nodes.q is not None
        for token, q in zip(row.nodes.token, row.nodes.q, strict=True):
            assert q == pytest.approx((text.count(token) + 0.25) / (len(text) + 1), rel=1e-5)
    assert any(0 in row.nodes.token for row in trace.rounds), "never tried an unseen token"


@pytest.mark.parametrize("guess", ["uniform", "unigram"])
def test_drawn_tokens_come_as_often_as_q_says(guess: str) -> None:
    """First proposals of 500 seeds, chi-square, false alarm 1e-4. Catches: draws that ignore a token, or all nodes of
    a round drawn with one number."""
    models, seen = scripted(wavering(5, 3)), Counter[tuple[int, ...]]()
    settings = BLIND.but(options={"guess": guess}, temperature=1.0, max_new_tokens=3, draft_length=2)
    for seed in range(500):
        seen[tuple(sd.decode(models, [0, 0, 1, 2], settings.but(seed=seed)).rounds[0].nodes.token)] += 1
    shares = [(count + 0.2) / 5 for count in (2, 1, 1, 0, 0)] if guess == "unigram" else [0.2] * 5
    pairs = [(one, other) for one in range(5) for other in range(5) if shares[one] * shares[other] * 500 >= 5]
    rest = 500 - sum(seen[pair] for pair in pairs)
    expected = [500 * shares[one] * shares[other] for one, other in pairs]
    observed = [seen[pair] for pair in pairs]
    if 500 - sum(expected) > 1e-6:
        observed, expected = [*observed, rest], [*expected, 500 - sum(expected)]
    assert chisquare(observed, expected).pvalue > FALSE_ALARM


def test_uniform_guesses_differ_by_seed_and_round_and_are_the_seeds_own_at_temperature_0() -> None:
    """Catches: a guess drawn from a state outside the seed, and the same tokens in every round."""
    models = scripted(wavering(50, 1))
    traces = [sd.decode(models, [0], BLIND.but(seed=seed)) for seed in (1, 1, 2)]
    guessed = [[row.nodes.token for row in trace.rounds] for trace in traces]
    assert guessed[0] == guessed[1] != guessed[2]
    assert len({tuple(tokens) for tokens in guessed[0][:-3]}) > 20
    assert {token for row in guessed[0] for token in row} > set(range(10))
    assert traces[0].rounds[0].nodes.q == [1.0] * 3


def test_an_unknown_guess_is_refused() -> None:
    """One sentence that says what is known."""
    with pytest.raises(sd.SettingsError, match="unigram"):
        sd.decode(scripted(wavering(3, 1)), [0], BLIND.but(options={"guess": "lucky"}))
