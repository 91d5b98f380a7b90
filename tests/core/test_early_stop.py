"""Drafts that stop early: the enumeration against direct sums, against `exact`, and what is and is not lossless."""

from __future__ import annotations

from itertools import product

import pytest

from specdec_core.foundations.errors import SettingsError
from specdec_core.rules import RULES
from specdec_core.rules.base import Rule
from specdec_measure.exact import distribution as exact
from specdec_measure.exact.early_stop import stopped

P = ((0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.6, 0.2, 0.2), (0.1, 0.2, 0.7))
Q = ((0.6, 0.3, 0.1), (0.45, 0.35, 0.2), (0.3, 0.6, 0.1), (0.4, 0.3, 0.3))


def p(text: tuple[int, ...]) -> tuple[float, ...]:
    return P[text[-1] + 1 if text else 0]


def q(text: tuple[int, ...]) -> tuple[float, ...]:
    return Q[text[-1] + 1 if text else 0]


def rule(name: str, **options: float) -> Rule:
    kind = RULES[name]
    return kind(kind.Options(**options))


@pytest.mark.parametrize(
    "judge",
    [
        rule("speculative-sampling"),
        rule("token-matching"),
        rule("ensemble", weight=0.4),
        rule("typical"),
        rule("confidence", threshold=0.35),
    ],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_without_a_stop_it_is_the_chain_of_the_enumerator(judge: Rule, gamma: int) -> None:
    """Distance and tokens of `exact`, which enumerates the outcomes of a round differently; to 1e-12."""
    found = stopped(judge, gamma, p, q)
    chain = range(-1, gamma - 1)
    assert found.distance == pytest.approx(exact.distance(judge, chain, p, q), abs=1e-12)
    assert found.tokens == pytest.approx(1 + exact.expected_accepted(judge, chain, p, q), abs=1e-12)
    assert (found.drafted, found.accepted) == pytest.approx((gamma, found.tokens - 1))


@pytest.mark.parametrize("stop", [0.15, 0.32, 0.5, 1.0])
def test_a_stop_by_direct_sums(stop: float) -> None:
    """Every text of three guesses with its chance by hand: Leviathan's min(1, p/q), cut after the first doubtful one.
    Catches: a stop that drops the doubtful guess, counts guesses that were not judged, or misses one that was."""
    drafted = judged = accepted = 0.0
    for text in product(range(3), repeat=3):
        chance, length = 1.0, 3
        for at, token in enumerate(text):
            chance *= q(text[:at])[token]
            if q(text[:at])[token] < stop:
                length = min(length, at + 1)
        drafted += chance * length
        alive = chance
        for at in range(length):
            judged += alive
            alive *= min(1.0, p(text[:at])[text[at]] / q(text[:at])[text[at]])
            accepted += alive
    found = stopped(rule("speculative-sampling"), 3, p, q, stop)
    assert found.drafted == pytest.approx(drafted)
    assert found.judged == pytest.approx(judged)
    assert found.accepted == pytest.approx(accepted)
    assert found.acceptance == pytest.approx(accepted / judged)
    assert found.tokens == pytest.approx(1 + accepted)
    assert found.speedup(0.2) == pytest.approx((1 + accepted) / (1 + 0.2 * drafted))


@pytest.mark.parametrize("name", ["speculative-sampling", "token-matching"])
@pytest.mark.parametrize("stop", [0.15, 0.32, 0.5, 1.0])
def test_a_stop_on_the_draft_side_is_lossless(name: str, stop: float) -> None:
    """Whatever the draft doubts, a lossless rule writes the target's distribution; the first word's distribution is p
    itself."""
    found = stopped(rule(name), 3, p, q, stop)
    assert found.distance < 1e-12
    assert found.first == pytest.approx(P[0])


def test_dropping_the_doubtful_token_is_not() -> None:
    """One guess, of which the doubtful third token is dropped for a draw from p: the distribution by hand."""
    found = stopped(rule("speculative-sampling"), 1, p, q, 0.15, drops=True)
    kept = [min(P[0][token], Q[0][token]) for token in (0, 1)]
    refused = sum(Q[0][token] - kept[token] for token in (0, 1))
    left = [max(0.0, one - other) for one, other in zip(P[0], Q[0], strict=True)]
    expected = [
        (kept[token] if token < 2 else 0.0) + refused * left[token] / sum(left) + Q[0][2] * P[0][token]
        for token in range(3)
    ]
    assert found.first == pytest.approx(expected)
    assert found.distance == pytest.approx(
        0.5 * sum(abs(one - other) for one, other in zip(expected, P[0], strict=True))
    )
    assert found.distance > 0.01


def test_a_rule_that_judges_all_at_once_is_refused() -> None:
    with pytest.raises(SettingsError, match="as a whole"):
        stopped(rule("block"), 2, p, q)
