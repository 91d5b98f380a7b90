"""Seeded trials beside the enumerator: the same distribution within what chance allows, for right and for wrong
rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pytest

from specdec_core.rules import RULES, Rule
from specdec_lessons.broken import ResamplesFromTarget, SoftmaxedResidual
from specdec_measure.exact.distribution import output_distribution, target_distribution
from specdec_measure.exact.trials import plain_texts, round_texts, shares

TRIALS = 20_000
SURE = 5.0  # standard deviations


def target(context: tuple[int, ...]) -> Sequence[float]:
    """Depends on the last token, so that a wrong place would show."""
    return ([0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.0, 0.5, 0.5])[
        context[-1] + 1 if context else 0
    ]


def draft(context: tuple[int, ...]) -> Sequence[float]:
    return ([0.2, 0.3, 0.5], [0.7, 0.0, 0.3], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6])[
        context[-1] + 1 if context else 0
    ]


def agree(found: dict[tuple[int, ...], float], expected: dict[tuple[int, ...], float], trials: int) -> None:
    """Every text as often as its probability says, within chance; none that cannot be."""
    assert sum(found.values()) == pytest.approx(1.0)
    for text in {*found, *expected}:
        chance = expected.get(text, 0.0)
        allowed = SURE * sqrt(chance * (1.0 - chance) / trials) + 1e-12
        assert abs(found.get(text, 0.0) - chance) <= allowed, text


@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize(
    "rule", [RULES["speculative-sampling"], RULES["token-matching"], ResamplesFromTarget, SoftmaxedResidual]
)
def test_rounds_follow_the_enumerated_distribution(rule: type[Rule], drafts: int) -> None:
    texts, accepted = round_texts(rule(), drafts, target, draft, drafts + 1, TRIALS, 7)
    expected = output_distribution(rule(), range(-1, drafts - 1), target, draft, drafts + 1)
    agree(shares(texts), expected, TRIALS)
    assert texts.shape == (TRIALS, drafts + 1)
    assert accepted.min() >= 0 and accepted.max() == drafts


def test_a_wrong_rule_is_told_from_the_target_by_its_trials() -> None:
    texts, _ = round_texts(ResamplesFromTarget(), 1, target, draft, 2, TRIALS, 1)
    with pytest.raises(AssertionError):
        agree(shares(texts), target_distribution(target, 2), TRIALS)


def test_plain_texts_follow_the_target() -> None:
    agree(shares(plain_texts(target, 3, TRIALS, 5)), target_distribution(target, 3), TRIALS)


def test_acceptance_is_the_overlap() -> None:
    _, accepted = round_texts(RULES["speculative-sampling"](), 1, target, draft, 2, TRIALS, 3)
    overlap = sum(min(one, other) for one, other in zip(target(()), draft(()), strict=True))
    assert accepted.mean() == pytest.approx(overlap, abs=SURE * 0.5 / sqrt(TRIALS))


def test_the_same_seed_gives_the_same_texts() -> None:
    first, second, other = (
        round_texts(RULES["speculative-sampling"](), 2, target, draft, 3, 50, seed)[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second) and not np.array_equal(first, other)


def test_what_cannot_be_thrown_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="judges a token by those after it"):
        round_texts(RULES["block"](), 2, target, draft, 3, 10, 0)
    with pytest.raises(ValueError, match="write up to 3, got length 2"):
        round_texts(RULES["speculative-sampling"](), 2, target, draft, 2, 10, 0)
    for length, trials in ((0, 10), (2, 0), (2, 10**7)):
        with pytest.raises(ValueError, match="at least one of each"):
            plain_texts(target, length, trials, 0)
