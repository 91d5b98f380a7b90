"""One guess, its coin and the outcome: the core's rules, right and wrong ones, enumerated for a pair of p and q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from specdec_core.rules import RULES
from specdec_core.rules.base import Rule
from specdec_lessons.rounding import most_likely
from specdec_measure.exact.distribution import total_variation
from specdec_measure.exact.enumeration import rounds
from specdec_measure.exact.trials import round_texts

if TYPE_CHECKING:
    from specdec_lessons.gallery import BrokenRule

__all__ = ["kept_share", "off_target", "uniform", "written"]

Row = tuple[float, ...]
GREEDY = "exact-match"  # a rule for temperature 0: it is always given a one-hot p


@cache
def broken() -> dict[str, BrokenRule]:
    """The wrong rules of the gallery, by name."""
    from specdec_lessons.gallery import GALLERY, BrokenRule  # here: it imports torch

    return {each.name: each for each in GALLERY if isinstance(each, BrokenRule)}


@dataclass(frozen=True, slots=True)
class Masses:
    """Where the probability of the next token comes from; each a number per token.

    Attributes:
        thresholds: the probability that the token is kept once it is guessed; None if it never is.
        kept: the probability that it is guessed and kept.
        filled: the probability that another guess is refused and this token is written instead.
        after: its probability given that a guess was refused, whichever it was; zeros if none ever is.
    """

    thresholds: tuple[float | None, ...]
    kept: Row
    filled: Row
    after: Row

    @property
    def written(self) -> Row:
        """The distribution of what is written."""
        return tuple(one + other for one, other in zip(self.kept, self.filled, strict=True))


def written(rule: str, p: Sequence[float], q: Sequence[float]) -> list[float]:
    """The exact distribution of the next token under a rule of the core or of the gallery of wrong ones."""
    return list(masses(rule, p, q).written)


def kept_share(rule: str, p: Sequence[float], q: Sequence[float]) -> float:
    """How often a guess drawn from q is kept under the rule."""
    return sum(masses(rule, p, q).kept)


def off_target(rule: str, p: Sequence[float], q: Sequence[float]) -> float:
    """Total variation between what the rule writes and p: 0 if it is lossless here."""
    return distance(masses(rule, p, q).written, p)


def uniform(tokens: int) -> list[float]:
    """The same probability for every token."""
    if not 1 <= tokens <= 200:
        raise ValueError(f"a uniform distribution over {tokens} tokens cannot be shown here; take 1 to 200")
    return [1.0 / tokens] * tokens


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Total variation between two distributions of one token."""
    return total_variation(_distribution(first), _distribution(second))


def masses(rule: str, p: Sequence[float], q: Sequence[float]) -> Masses:
    """What the rule does with one guess drawn from q, enumerated.

    Raises:
        ValueError: if there is no such rule, or p and q are not distributions over the same tokens.
    """
    return _masses(rule, checked(p, "p"), checked(q, "q"))


def checked(probs: Sequence[float], name: str) -> Row:
    """A distribution as a tensor.

    Raises:
        ValueError: one sentence, if it is not a distribution.
    """
    row = tuple(float(value) for value in probs)
    if len(row) < 2 or min(row) < 0.0 or abs(sum(row) - 1.0) > 1e-9:
        raise ValueError(f"{name} has to be two or more probabilities that add up to 1, got {list(probs)}")
    return row


@lru_cache(maxsize=256)
def _masses(rule: str, p: Row, q: Row) -> Masses:
    if len(p) != len(q):
        raise ValueError(f"p and q have to be over the same tokens; p has {len(p)} and q {len(q)}")
    judge, seen = rule_named(rule), _seen(rule, p)
    size = len(p)
    thresholds: list[float | None] = [None] * size
    kept, filled = [0.0] * size, [0.0] * size
    for tokens, judgement, chance in rounds(judge, [-1], seen, lambda _: q, "independent", lazy=False):
        thresholds[tokens[0]] = judgement.thresholds[0]
        if judgement.path:
            kept[tokens[0]] += chance
        else:
            for token, share in enumerate(judgement.final.tolist()):
                filled[token] += chance * share
    refused = sum(filled)
    after = tuple(value / refused if refused > 0.0 else 0.0 for value in filled)
    return Masses(tuple(thresholds), tuple(kept), tuple(filled), after)


@lru_cache(maxsize=256)
def tried(rule: str, p: Row, q: Row, trials: int, seed: int) -> tuple[Row, tuple[bool, ...]]:
    """`trials` rounds of one guess: how often each token was written, and for each round whether its guess was kept."""
    texts, accepted = round_texts(rule_named(rule), 1, _seen(rule, p), lambda _: q, 2, trials, seed)
    first = texts[:, 0].tolist()
    return tuple(first.count(token) / trials for token in range(len(p))), tuple(bool(n) for n in accepted)


def rule_named(name: str) -> Rule:
    """A rule of the core, or the wrong one of an exhibit.

    Raises:
        ValueError: naming the existing ones.
    """
    if name in RULES:
        return RULES[name]()
    if name in broken():
        return broken()[name].rule()
    raise ValueError(f"there is no rule “{name}”; there are {', '.join([*RULES, *broken()])}")


def _seen(rule: str, p: Row) -> Callable[[tuple[int, ...]], Row]:
    """p in the form the rule expects."""
    best = most_likely(p)
    row = tuple(float(token == best) for token in range(len(p))) if rule == GREEDY else p
    return lambda _: row


def _distribution(row: Sequence[float]) -> dict[tuple[int, ...], float]:
    return {(token,): value for token, value in enumerate(row)}
