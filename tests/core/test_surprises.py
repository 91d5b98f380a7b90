"""How much a text surprises the models, and what memory alone allows: against hand-made distributions and plain
arithmetic."""

from __future__ import annotations

import math

import pytest

from specdec_core.foundations.errors import PromptError, SettingsError
from specdec_measure import theory
from specdec_measure.analysis.surprise import surprises
from specdec_measure.testing import scripted


def sure(tokens: tuple[int, ...]) -> list[float]:
    """Seven eighths for the next letter, the rest shared by the other seven."""
    last = tokens[-1] if tokens else 0
    return [7 / 8 if token == (last + 1) % 8 else 1 / 56 for token in range(8)]


def flat(tokens: tuple[int, ...]) -> list[float]:
    """A little more for the first letter, whatever stands before it."""
    return [0.3] + [0.1] * 7


def test_each_token_is_as_surprising_as_the_distribution_after_the_tokens_before_it_says() -> None:
    """“abd”: b was foreseen at 7/8, d (not c) at 1/56. Catches: a row off by one, nats for bits, the draft's
    distribution taken for the target's."""
    found = surprises(scripted(sure, flat), "abd")
    assert [token.text for token in found] == ["b", "d"]
    assert [token.bits for token in found] == pytest.approx([math.log2(8 / 7), math.log2(56)], abs=1e-5)
    assert [token.draft_bits for token in found] == pytest.approx([math.log2(10)] * 2, abs=1e-5)
    assert [token.choice for token in found] == ["b", "c"]
    assert [token.draft_choice for token in found] == ["a", "a"]
    assert [token.guessed for token in found] == [False, False]
    assert [token.guessed for token in surprises(scripted(sure, flat), "aa")] == [True]


def test_without_a_draft_nobody_guesses() -> None:
    (token,) = surprises(scripted(sure), "ab")
    assert (token.draft_bits, token.draft_choice, token.guessed) == (None, None, None)


@pytest.mark.parametrize("text", ["", "a", "ab" * 200])
def test_a_text_of_a_wrong_length_is_refused(text: str) -> None:
    with pytest.raises(PromptError, match=f"this one has {len(text)}"):
        surprises(scripted(sure), text)


def test_surprise_in_bits() -> None:
    assert [theory.surprise(chance) for chance in (1.0, 0.5, 1 / 8)] == [0.0, 1.0, 3.0]
    for wrong in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(SettingsError):
            theory.surprise(wrong)


def test_fourteen_gigabytes_at_a_terabyte_a_second_are_seventy_one_tokens_a_second() -> None:
    assert theory.memory_bound_rate(14e9, 1e12) == pytest.approx(71.43, abs=0.005)
    for wrong in ((0.0, 1.0), (1.0, 0.0), (math.inf, 1.0)):
        with pytest.raises(SettingsError):
            theory.memory_bound_rate(*wrong)
