"""Acceptance rules and drafts that stop early, enumerated on a small vocabulary; and on a recorded decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, fsum, log

from specdec_core.rules import rule_class
from specdec_core.settings import Settings
from specdec_measure.analysis.counterfactual import Counterfactual, judge_again
from specdec_measure.exact.budgets import POLICIES, Policy, budgeted, sender
from specdec_measure.exact.early_stop import StoppedEarly, blocks, stopped
from specdec_measure.exact.enumeration import NextProbs

from .recorded import trace

__all__ = [
    "budget_distance",
    "budget_first",
    "budget_tokens",
    "dropping_distance",
    "rule_acceptance",
    "rule_distance",
    "rule_tokens",
    "stop_acceptance",
    "stop_distance",
    "stop_drafted",
    "stop_speedup",
    "stop_tokens",
]

EXACT = "speculative-sampling"
Options = tuple[tuple[str, float], ...]
Table = Sequence[Sequence[float]]
"""Next-token probabilities: a row after the root, then one after each token."""


def stop_acceptance(p: Table, q: Table, gamma: int, stop: float) -> float:
    """Accepted over judged where drafting stops after a token with q below `stop`; speculative sampling judges."""
    return round_with(EXACT, {}, p, q, gamma, stop).acceptance


def stop_drafted(p: Table, q: Table, gamma: int, stop: float) -> float:
    """Drafted tokens of such a round."""
    return round_with(EXACT, {}, p, q, gamma, stop).drafted


def stop_tokens(p: Table, q: Table, gamma: int, stop: float) -> float:
    """Its tokens per target pass."""
    return round_with(EXACT, {}, p, q, gamma, stop).tokens


def stop_speedup(p: Table, q: Table, gamma: int, stop: float, cost: float) -> float:
    """Its speedup over plain decoding at that cost ratio; modelled."""
    return round_with(EXACT, {}, p, q, gamma, stop).speedup(cost)


def stop_distance(p: Table, q: Table, gamma: int, stop: float) -> float:
    """Total variation between its text and the target's distribution."""
    return round_with(EXACT, {}, p, q, gamma, stop).distance


def dropping_distance(p: Table, q: Table, gamma: int, stop: float) -> float:
    """The same if the doubtful token itself is dropped, though it was drawn."""
    return round_with(EXACT, {}, p, q, gamma, stop, drops=True).distance


def rule_acceptance(rule: str, options: Mapping[str, float], p: Table, q: Table, gamma: int) -> float:
    """Accepted over judged of a rule with its options."""
    return round_with(rule, options, p, q, gamma).acceptance


def rule_tokens(rule: str, options: Mapping[str, float], p: Table, q: Table, gamma: int) -> float:
    """Its tokens per target pass."""
    return round_with(rule, options, p, q, gamma).tokens


def rule_distance(rule: str, options: Mapping[str, float], p: Table, q: Table, gamma: int) -> float:
    """Total variation between its text and the target's distribution."""
    return round_with(rule, options, p, q, gamma).distance


@lru_cache(maxsize=64)
def cut_target(
    p: tuple[tuple[float, ...], ...],
    q: tuple[tuple[float, ...], ...],
    gamma: int,
    rule: str,
    options: Options,
) -> StoppedEarly:
    """Speculative sampling towards the target cut off where a lossy rule has its threshold, against the whole target.

    The rules that keep what is above a threshold are one way to leave out unlikely tokens; this is the other.
    """
    given = dict(options)

    def kept(row: Sequence[float]) -> list[float]:
        bar = given.get("threshold", 0.0)
        if rule == "typical":
            entropy = -fsum(x * log(x) for x in row if x > 0.0)
            bar = min(given["epsilon"], given["delta"] * exp(-entropy))
        above = [x if x >= min(bar, max(row)) else 0.0 for x in row]
        return [x / fsum(above) for x in above]

    target = _after(tuple(tuple(kept(row)) for row in p))
    return stopped(rule_class(EXACT)(), gamma, target, _after(q), wanted=_after(p))


def budget_distance(policy: Policy, p: Table, q: Table, times: Sequence[float]) -> float:
    """The same if a policy of `POLICIES` chooses how much of a drawn block is verified."""
    return budget_round(policy, p, q, times).distance


def budget_first(policy: Policy, p: Table, q: Table, times: Sequence[float], token: int) -> float:
    """The probability with which such a round writes that token first."""
    return budget_round(policy, p, q, times).first[token]


def budget_tokens(policy: Policy, p: Table, q: Table, times: Sequence[float]) -> float:
    """Its tokens per target pass."""
    return budget_round(policy, p, q, times).tokens


def budget_round(policy: Policy, p: Table, q: Table, times: Sequence[float]) -> StoppedEarly:
    """One such round, enumerated.

    Raises:
        ValueError: for an unknown policy, tables that are no distributions, or a block of more than three guesses.
    """
    return _budgeted(policy, _table(p), _table(q), tuple(times))


@lru_cache(maxsize=128)
def _budgeted(
    policy: Policy,
    p: tuple[tuple[float, ...], ...],
    q: tuple[tuple[float, ...], ...],
    times: tuple[float, ...],
) -> StoppedEarly:
    check_tables(p, q)
    if policy not in POLICIES or not 2 <= len(times) <= 4:
        raise ValueError(f"a budget needs one of {', '.join(POLICIES)} and the times of one to three guesses")
    return budgeted(policy, rule_class(EXACT)(), _after(p), _after(q), times)


def budgets_sent(policy: Policy, p: Table, q: Table, times: Sequence[float]) -> dict[tuple[int, ...], int]:
    """How many guesses of each block that can be drawn the policy sends."""
    sent = sender(policy, _after(_table(p)), _after(_table(q)), times)
    return {block: sent(block) for block, _ in blocks(len(times) - 1, _after(_table(q)))}


def _after(rows: tuple[tuple[float, ...], ...]) -> NextProbs:
    return lambda text: rows[text[-1] + 1 if text else 0]


def round_with(
    rule: str,
    options: Mapping[str, float],
    p: Table,
    q: Table,
    gamma: int,
    stop: float = 0.0,
    *,
    drops: bool = False,
) -> StoppedEarly:
    """One round, enumerated.

    Raises:
        ValueError, SettingsError: for an unknown rule, wrong options, or tables that are no distributions.
    """
    return _round(rule, tuple(options.items()), _table(p), _table(q), gamma, stop, drops)


def _table(rows: Table) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in rows)


@lru_cache(maxsize=512)
def _round(
    rule: str,
    options: tuple[tuple[str, float], ...],
    p: tuple[tuple[float, ...], ...],
    q: tuple[tuple[float, ...], ...],
    gamma: int,
    stop: float,
    drops: bool,
) -> StoppedEarly:
    check_tables(p, q)
    kind = rule_class(rule)
    judge = kind(kind.read_options(Settings(rule=rule, temperature=1.0, rule_options=dict(options))))
    return stopped(judge, gamma, _after(p), _after(q), stop, drops=drops)


def check_tables(p: Table, q: Table) -> None:
    """Reject tables that are not distributions over one small vocabulary.

    Raises:
        ValueError: one sentence.
    """
    size = len(p[0]) if p else 0
    if not 2 <= size <= 5:
        raise ValueError("p and q need rows of two to five tokens")
    for name, table in (("p", p), ("q", q)):
        if len(table) != size + 1 or any(len(row) != size for row in table):
            raise ValueError(
                f"{name} needs {size + 1} rows of {size} numbers: one for the root, one after each token"
            )
        if any(min(row) < 0 or abs(sum(row) - 1.0) > 1e-9 for row in table):
            raise ValueError(f"each row of {name} has to be probabilities that add up to one")


@lru_cache(maxsize=256)
def judged_again(example: str, rule: str, options: tuple[tuple[str, float], ...]) -> Counterfactual:
    """A recorded decode under another rule: the same drafts, the same coins.

    Raises:
        SpecdecError: one sentence, if the record does not hold what the rule needs.
    """
    return judge_again(trace(example), rule, dict(options))
