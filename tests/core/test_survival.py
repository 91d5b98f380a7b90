"""The online fit of acceptance, and policies replayed on a record against the oracle."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

import specdec_core as sd
from specdec_core.foundations.errors import TraceError
from specdec_core.lengths.survival import DEEPEST, EVERY, PULL, Survival
from specdec_measure.analysis.lengths import Stretch, oracle, reliability, replayed, stretches

from .tiny import PROMPTS, pair


def test_it_starts_as_the_drafts_own_estimate() -> None:
    """Catches: a fit that says one half until it knows better, log-odds of 0 or 1 that overflow."""
    fit = Survival()
    for confidence in (0.01, 0.3, 0.5, 0.99):
        assert fit.chances([confidence] * 20) == pytest.approx([confidence] * 20)
    assert 0.0 < fit.chance(0, 0.0) < 1e-3 < 0.999 < fit.chance(0, 1.0) < 1.0


def test_the_fit_is_the_penalised_logistic_regression() -> None:
    """Its fixed point against Newton's method on the whole Hessian with numpy. Catches: a wrong elimination, a penalty
    on the wrong side, intercepts that are mixed up."""
    rng, fit = random.Random(1), Survival()
    for _ in range(120):
        confidences = [rng.random() for _ in range(4)]
        accepted = next((at for at, c in enumerate(confidences) if rng.random() > 0.3 + 0.4 * c), 4)
        fit.observe(confidences, accepted)
    for _ in range(60):
        fit._fit()
    rows = list(fit.judged)
    design = np.array([[*(float(place == at) for at in range(DEEPEST)), odds] for place, odds, _ in rows])
    kept = np.array([accepted for *_, accepted in rows])
    start = np.array([0.0] * DEEPEST + [1.0])
    beta = start.copy()
    for _ in range(60):
        chance = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (kept - chance) - PULL / 4 * (beta - start)
        hessian = design.T @ (design * (chance * (1 - chance))[:, None]) + PULL / 4 * np.eye(len(beta))
        beta += np.linalg.solve(hessian, gradient)
    assert [*fit.intercepts, fit.slope] == pytest.approx(beta.tolist(), abs=1e-6)


def test_it_learns_a_draft_that_is_too_sure_and_worse_with_depth() -> None:
    """Guesses of confidence .9 of which 9, 5 and 2 in ten are accepted by depth. Catches: one intercept for all depths,
    guesses that were not reached counted as rejected."""
    rng, fit = random.Random(2), Survival()
    for _ in range(400):
        accepted = next((at for at, chance in enumerate((0.9, 0.5, 0.2)) if rng.random() > chance), 3)
        fit.observe([0.9, 0.9, 0.9], accepted)
    assert fit.chances([0.9] * 3) == pytest.approx([0.9, 0.5, 0.2], abs=0.12)
    assert fit.since < EVERY


@cache
def _trace(proposer: str = "draft-model", gamma: int = 8) -> sd.Trace:
    settings = sd.Settings(proposer=proposer, draft_length=gamma, max_new_tokens=60)
    return sd.decode(pair("llama"), PROMPTS[0], settings)


def test_a_record_replayed_with_its_own_policy_is_the_record() -> None:
    """The rounds of a real decode. Catches: a place of the text lost or counted twice, guesses attributed to the wrong
    place."""
    trace = _trace()
    found = stretches(trace)
    again = replayed(found, "fixed", {}, 8, [1.0], 0.0)
    assert again.tokens == len(trace.token_ids)
    recorded = [len(row.nodes.token) for row in trace.rounds]
    assert list(again.lengths) == recorded
    assert again.seconds == pytest.approx(len(trace.rounds))


def test_a_shorter_draft_replayed_is_that_decode() -> None:
    """γ = 3 replayed on a record of γ = 32, against a real decode with γ = 3. Catches: guesses from the middle of a
    recorded draft that are not what the draft would say there."""
    short = _trace(gamma=3)
    again = replayed(stretches(_trace(gamma=32)), "fixed", {}, 3, [1.0], 0.0)
    differing = sum(
        one != len(row.nodes.token) for one, row in zip(again.lengths, short.rounds, strict=False)
    )
    assert abs(len(again.lengths) - len(short.rounds)) <= 1
    assert differing <= 2  # at the end of a recorded draft fewer guesses are known


def test_the_oracle_is_the_best_of_all_plans() -> None:
    """Every sequence of lengths tried on short texts. Catches: an oracle that some policy beats."""
    rng = random.Random(5)
    for _ in range(20):
        found = [Stretch((0.5,) * 3, rng.randrange(4)) for _ in range(6)]
        curve = [1.0, *sorted(1.0 + rng.random() for _ in range(3))]
        cost = rng.random() / 3

        assert oracle(found, 3, curve, cost) == pytest.approx(_best(found, curve, cost))


def _best(found: list[Stretch], curve: list[float], cost: float) -> float:
    """The least time, all lengths tried everywhere."""
    if not found:
        return 0.0
    times = []
    for n in range(min(3, len(found) - 1) + 1):
        rest = found[min(n, found[0].accepted) + 1 :]
        times.append(n * cost + curve[n] + _best(rest, curve, cost))
    return min(times)


def test_no_policy_beats_the_oracle_and_the_measured_one_is_near() -> None:
    """All policies on one record. Catches: a replay that lets a policy see what will be accepted."""
    found, curve, cost = stretches(_trace()), [1.0, 1.2, 1.4, 1.6, 1.8, 2.0], 0.2
    options = {"cost-aware": {"curve": curve, "cost_ratio": cost}}
    regrets = {}
    for policy in ("fixed", "confidence", "heuristic", "cost-aware", "ladder", "kill-switch", "bandit"):
        regrets[policy] = replayed(found, policy, options.get(policy, {}), 8, curve, cost).regret
    assert min(regrets.values()) >= -1e-12, regrets
    short = replayed(found, "fixed", {}, 1, curve, cost)
    long = replayed(found, "fixed", {}, 8, curve, cost)
    assert short.seconds / (1 + short.regret) == pytest.approx(long.seconds / (1 + long.regret)), (
        "one oracle for all"
    )
    assert regrets["cost-aware"] < regrets["fixed"], regrets


def test_reliability_counts_each_judged_guess_once() -> None:
    """Against a count of the record. Catches: unreached guesses, a depth off by one, late predictions."""
    trace = _trace()
    points = reliability(trace, deepest=3)
    for depth in (1, 2, 3):
        judged = [
            verdict for row in trace.rounds for level, verdict in zip(row.nodes.depth, row.nodes.verdict, strict=True)
            if level == depth and verdict in ("accepted", "rejected")
        ]  # fmt: skip
        mine = [point for point in points if point.depth == depth]
        assert sum(point.count for point in mine) == len(judged)
        kept = sum(point.accepted * point.count for point in mine)
        assert kept == pytest.approx(judged.count("accepted"))
        assert all(0 < point.predicted < 1 and not math.isnan(point.accepted) for point in mine)


def test_records_that_cannot_be_replayed_are_refused() -> None:
    """Catches: a tree or a sampled text replayed as if its guesses were known."""
    sampled = sd.decode(pair("llama"), PROMPTS[0], sd.Settings(temperature=1.0, max_new_tokens=8))
    with pytest.raises(TraceError, match="temperature 0"):
        stretches(sampled)
    with pytest.raises(TraceError, match="chains"):
        stretches(
            sd.decode(pair("llama"), PROMPTS[0], sd.Settings(proposer="prompt-lookup", max_new_tokens=24))
        )
