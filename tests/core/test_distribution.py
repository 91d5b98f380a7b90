"""Above temperature 0 the text follows the target's distribution, whatever is proposed; and this meter finds rules for
which it does not.

Each test compares whole texts of five tokens (three to five rounds with their rollbacks) with the product of the
target's conditionals by `distributions.Meter`: those of each case, and those of all cases with the same proposer or
rule together. False alarms: 1e-4 per comparison over the choice of seeds; the seeds are fixed, so a test that passed
keeps passing until the decoder draws differently.
"""

from __future__ import annotations

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.sampling import Warp
from specdec_measure.testing import Letters, scripted

from .distributions import (
    BROKEN,
    DRAFT,
    TARGET,
    Case,
    after,
    chances,
    exact_distribution,
    mixture,
    model_next_probs,
    samples,
    wavering,
)
from .tiny import build, like

FALSE_ALARM = 1e-4
COUNT = 160  # texts of a case
LENGTH = 5
PROMPT = [0, 1, 2, 0, 1, 0]  # repeats itself, so that prompt lookup finds something
PROPOSERS = ["test-drawn", "test-ranked"]  # test_distribution_matrix has the core's own
LOSSLESS = ["speculative-sampling", "token-matching"]


def _cases(rules: list[str]) -> dict[Case, sd.Settings]:
    """Every proposer with these rules."""
    return {
        (proposer, rule): sd.Settings(
            proposer=proposer, rule=rule, draft_length=3, temperature=1.0, max_new_tokens=LENGTH, record="off"
        )
        for proposer in PROPOSERS
        for rule in rules
    }


@pytest.mark.usefixtures("proposers")
def test_sampled_texts_follow_the_targets_distribution() -> None:
    """Scripted models whose distributions depend on the whole text; either kind of tree with either rule. Catches: a
    residual, coin, cache or bonus that is off for drawn or for ranked siblings. False alarm 1e-4."""
    written = samples(scripted(TARGET, DRAFT), PROMPT, _cases(LOSSLESS), COUNT)
    found = chances(written, exact_distribution(TARGET, PROMPT, LENGTH, Warp(1.0)), after(PROMPT, DRAFT))
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("warp", [Warp(0.6), Warp(1.7, top_k=2), Warp(1.3, top_p=0.7), Warp(2.0, 3, 0.8)])
def test_sampled_texts_follow_the_warped_distribution(warp: Warp) -> None:
    """Temperature, top-k and top-p change the target's distribution, not who wins. Catches: p and q warped differently
    in a way that the rule does not see. Vocabulary of four; false alarm 1e-4."""
    next_probs = wavering(4, seed=3)
    its_draft = mixture(next_probs, wavering(4, seed=4), 0.6)
    models = scripted(next_probs, its_draft)
    cases = {
        (proposer,): sd.Settings(
            proposer=proposer, draft_length=3, temperature=warp.temperature, top_k=warp.top_k, top_p=warp.top_p,
            max_new_tokens=4, record="off",
        )
        for proposer in ("draft-model", "prompt-lookup", "test-drawn")
    }  # fmt: skip
    expected = exact_distribution(next_probs, PROMPT, 4, warp)
    found = chances(samples(models, PROMPT, cases, COUNT), expected, after(PROMPT, its_draft))
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.name)
def test_the_meter_rejects_a_rule_that_is_wrong(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the tests above: the same distribution, proposers and counts, and a rule that is known to be broken.
    If this fails, passing the others means little."""
    monkeypatch.setitem(sd.RULES, kind.name, kind)
    expected = exact_distribution(TARGET, PROMPT, LENGTH, Warp(1.0))
    written = samples(scripted(TARGET, DRAFT), PROMPT, _cases([kind.name]), COUNT)
    found = chances(written, expected, after(PROMPT, DRAFT))
    assert min(found.values()) < FALSE_ALARM


@pytest.mark.usefixtures("proposers")
def test_a_real_models_texts_follow_its_distribution(device: str) -> None:
    """A Llama of two layers and six tokens, its distribution taken from plain transformers passes over whole texts.
    Catches: KV rows of a rejected draft that stay in sight. 300 texts of four tokens, shared by the cases; false alarm
    1e-4."""
    big = build("llama", vocab_size=6)
    models = sd.Models(
        Letters(6),
        HubModel("tiny target", big.to(device)),
        HubModel("tiny draft", like(big, "llama", 0.3, vocab_size=6).to(device)),
    )
    assert isinstance(models.target, HubModel) and isinstance(models.draft, HubModel)
    cases = {
        (proposer, rule): sd.Settings(
            proposer=proposer, rule=rule, draft_length=2, temperature=1.5, max_new_tokens=4, record="off"
        )
        for proposer, rule in (
            ("draft-model", "speculative-sampling"),
            ("draft-model", "token-matching"),
            ("test-drawn", "speculative-sampling"),
        )
    }
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 4, Warp(1.5))
    assert max(expected.values()) < 0.2, "the distribution is too sharp to test a sampler"
    leaning = after([1, 2, 3], model_next_probs(models.draft))
    found = chances(samples(models, [1, 2, 3], cases, 100), expected, leaning)
    assert min(found.values()) > FALSE_ALARM, found


def test_two_samplers_of_one_seed_write_the_same_text_and_of_two_seeds_different_ones() -> None:
    """Catches: randomness that is not the seed's, or not used."""
    models = scripted(wavering(20, 1), wavering(20, 2))
    settings = sd.Settings(temperature=1.0, max_new_tokens=20)
    texts = [sd.decode(models, PROMPT, settings.but(seed=seed)).token_ids for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
