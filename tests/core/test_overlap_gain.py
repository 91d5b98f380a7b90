"""What overlap gains by the formula, against rounds enumerated, rounds played, and how often the core's guesses are
correct."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

import specdec_core as sd
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers.draft.drafting_ahead import Ahead
from specdec_measure import theory
from specdec_measure.testing import scripted


def clock(guesses: tuple[bool, ...], gamma: int, cost: float) -> float:
    """When the last check is done, from two machines that are each busy until a time: a draft's, and a target's. A
    draft made ahead starts from a guess of the token after the last draft, which is a pass as well."""
    draft_free = gamma * cost  # the first draft overlaps with nothing
    target_free = 0.0
    for correct in guesses:
        began = max(draft_free, target_free)
        target_free = began + 1.0
        draft_free = began + cost + gamma * cost if correct else target_free + gamma * cost
    return target_free


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize(("gamma", "cost"), [(1, 0.3), (2, 0.5), (3, 0.9), (4, 0.05)])
def test_the_mean_of_a_round_is_that_over_all_patterns_of_guesses(
    alpha: float, gamma: int, cost: float
) -> None:
    """One round more costs, in the mean over every pattern of guesses, what the formula's denominator says, to 1e-12.
    Catches: a guess of γ tokens without the one after them, a sum where the longer of the two belongs."""
    chance = math.prod(alpha for _ in range(gamma + 1))

    def mean(rounds: int) -> float:
        patterns = itertools.product((True, False), repeat=rounds)
        return math.fsum(
            clock(guesses, gamma, cost)
            * math.prod(chance if correct else 1.0 - chance for correct in guesses)
            for guesses in patterns
        )

    serial = 1.0 + gamma * cost
    assert theory.correct_guess_rate(alpha, gamma) == pytest.approx(chance, abs=1e-15)
    assert theory.overlap_gain(alpha, gamma, cost) == pytest.approx(serial / (mean(7) - mean(6)), abs=1e-12)


def test_played_rounds_come_to_the_same() -> None:
    """Forty thousand rounds whose every guess is drawn, within a percent. Catches: guesses that depend on each
    other."""
    source, alpha, gamma, cost = random.Random(5), 0.85, 4, 0.2
    guesses = tuple(all(source.random() < alpha for _ in range(gamma + 1)) for _ in range(40_000))
    gain = len(guesses) * (1.0 + gamma * cost) / clock(guesses, gamma, cost)
    assert theory.overlap_gain(alpha, gamma, cost) == pytest.approx(gain, rel=0.01)


def test_bounds_and_refusals() -> None:
    """Never below 1 where a draft's pass is no longer than the target's, always below 2; most where a check takes as
    long as γ + 1 passes of the draft and all guesses are correct."""
    for alpha, gamma, cost in itertools.product((0.0, 0.5, 0.9, 1.0), (0, 1, 4, 9), (0.0, 0.1, 0.25, 1.0)):
        assert 1.0 <= theory.overlap_gain(alpha, gamma, cost) < 2.0
    assert theory.overlap_gain(1.0, 4, 0.2) == pytest.approx(1.8)
    assert theory.overlap_gain(1.0, 4, 0.25) == pytest.approx(2.0 / 1.25)
    assert theory.overlap_gain(1.0, 4, 0.19) < 1.8 > theory.overlap_gain(0.99, 4, 0.2)
    # Where the guess of the token in between takes longer than the check, waiting would be faster.
    assert theory.overlap_gain(1.0, 4, 2.0) == pytest.approx(9.0 / 10.0)
    for wrong in ((1.1, 4, 0.1), (0.5, -1, 0.1), (0.5, 4, -0.1)):
        with pytest.raises(SettingsError):
            theory.overlap_gain(*wrong)


def test_as_many_of_the_core_s_guesses_come_true_as_the_formula_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that is always sure of token 0, which the target writes with chance α: the guess after the draft is then
    as good as the others. Over a thousand rounds the share of the core's correct guesses is within 4 standard
    errors."""

    def to_the_end(self: Ahead, advance: Callable[[], bool]) -> None:
        while advance():
            pass

    monkeypatch.setattr(Ahead, "begin", to_the_end)
    alpha, gamma = 0.8, 2
    models = scripted(lambda context: [alpha, 1.0 - alpha], lambda context: [1.0, 0.0])
    correct = rounds = 0
    made: Counter[int] = Counter()
    for seed in range(3):
        settings = sd.Settings(
            proposer="draft-model", overlap=True, draft_length=gamma, temperature=1.0, seed=seed,
            max_new_tokens=800, record="tokens",
        )  # fmt: skip
        trace = sd.decode(models, [0], settings)
        assert trace.audit() == []
        correct += sum("ahead" in row.note for row in trace.rounds)
        made.update(row.ahead_passes for row in trace.rounds)
        rounds += len(trace.rounds) - 1
    expected = theory.correct_guess_rate(alpha, gamma)
    assert rounds > 600
    assert made[gamma + 1] > 0.98 * rounds  # γ and one for the token between, but where the text ends
    assert abs(correct / rounds - expected) < 4 * math.sqrt(expected * (1 - expected) / rounds)
