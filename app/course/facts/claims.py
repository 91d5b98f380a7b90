"""Numbers for the common claims: rules by enumeration, recorded texts, modelled machines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from app.decoding import core
from specdec_core.foundations.errors import SettingsError
from specdec_measure import theory
from specdec_measure.machines import profiles
from specdec_measure.theory import acceptance_needed

from .recorded import trace

__all__ = [
    "acceptance_needed",
    "arithmetic_growth",
    "latency_saved",
    "pair_best_length",
    "pair_gain",
    "rule_off_target",
    "rule_round_tokens",
    "same_text_as_plain",
]


def arithmetic_growth(alpha: float, gamma: int, cost: float) -> float:
    """Arithmetic operations per token relative to plain decoding; `cost` is ĉ, a ratio of operations."""
    return theory.operations(alpha, gamma, cost)


def latency_saved(alpha: float, gamma: int, cost: float) -> float:
    """The share of plain decoding's time per token that the formula says is saved; negative if time is lost."""
    return 1.0 - 1.0 / theory.speedup(alpha, gamma, cost)


def rule_off_target(rule: str, p: Sequence[float], q: Sequence[float], gamma: int) -> float:
    """Total variation between what one round under that rule writes and the target's distribution, enumerated."""
    return _enumerated(rule, tuple(p), tuple(q), gamma)[0]


def rule_round_tokens(rule: str, p: Sequence[float], q: Sequence[float], gamma: int) -> float:
    """Mean number of tokens that one round under that rule writes, enumerated."""
    return _enumerated(rule, tuple(p), tuple(q), gamma)[1]


@lru_cache(maxsize=64)
def _enumerated(rule: str, p: tuple[float, ...], q: tuple[float, ...], gamma: int) -> tuple[float, float]:
    core.bring()
    from specdec_core.rules import rule_class
    from specdec_measure.exact import distribution as exact

    judge, chain = rule_class(rule)(), range(-1, gamma - 1)
    found = exact.distance(judge, chain, lambda _: p, lambda _: q)
    return found, 1.0 + exact.expected_accepted(judge, chain, lambda _: p, lambda _: q)


def same_text_as_plain(example: str) -> bool:
    """Whether both lanes of a recorded example wrote the same tokens."""
    return list(trace(example).token_ids) == list(trace(example, plain=True).token_ids)


def pair_gain(profile: str, batch: int, context: int, alpha: float, gamma: int) -> float:
    """The speedup of drafting γ tokens over plain decoding on a machine's profile (8B drafted by 1B), at that α.

    Raises:
        ValueError: if there is no such profile, or it cannot hold that batch and context.
    """
    return _gain(profile, batch, context, alpha, gamma)


@lru_cache(maxsize=1024)
def _gain(profile: str, batch: int, context: int, alpha: float, gamma: int) -> float:
    machine = _profiles().get(profile)
    if machine is None:
        raise ValueError(f"There is no profile “{profile}”. Choose one of: {', '.join(_profiles())}.")
    try:
        costs = machine.costs(batch, context)
        if costs.draft is None:
            raise ValueError(f"The profile “{profile}” knows no draft model.")
        curve = [costs.target(tokens) for tokens in range(1, gamma + 2)]
        return theory.speedup_on(curve, theory.tokens_per_pass(alpha, gamma), gamma, costs.draft(1))
    except SettingsError as error:
        raise ValueError(str(error)) from None


def pair_best_length(profile: str, batch: int, context: int, alpha: float, most: int) -> int:
    """The fastest draft length up to `most` there; the shortest of equals."""
    return max(range(most + 1), key=lambda gamma: pair_gain(profile, batch, context, alpha, gamma))


@cache
def _profiles() -> dict[str, profiles.Profile]:
    return profiles.shipped()[0]
