"""The exact distribution of what a rule writes, by enumeration over a toy vocabulary: this proves "lossless".

All drafts of a tree of the given shape, all outcomes of its coins, and all corrections are enumerated and
weighted by their probabilities, in float64. Nothing is sampled, so a correct rule is exact up to rounding, and a
wrong one shows by how much.

`lazy` leaves open the tokens and coins that a rule does not look at, see `enumeration`; otherwise all are enumerated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from specdec_core.rules.base import Rule
from specdec_core.tree import TokenTree

from .enumeration import Context, NextProbs, Siblings, rounds

Distribution = dict[Context, float]

__all__ = [
    "Context",
    "Distribution",
    "NextProbs",
    "Siblings",
    "departure",
    "distance",
    "expected_accepted",
    "output_distribution",
    "target_distribution",
    "total_variation",
]


def target_distribution(p: NextProbs, length: int) -> Distribution:
    """The distribution of `length` tokens drawn one by one from `p`: what a lossless rule must reproduce."""
    return _completed({(): 1.0}, p, length)


def output_distribution(
    rule: Rule,
    parents: Sequence[int],
    p: NextProbs,
    q: NextProbs,
    length: int,
    drafts: Siblings = "independent",
    *,
    lazy: bool = True,
) -> Distribution:
    """The distribution of the first `length` tokens that one round of `rule` writes, completed by plain sampling
    from `p`.

    Args:
        rule: any acceptance rule that treats coins as `Rule.judge` says: a node passes if its coin is below the
            threshold.
        parents: the shape of the proposal tree, as in `TokenTree`.
        p, q: the target's and the draft's distributions.
        length: tokens to compare; at least the tree's depth + 1, so that nothing a round writes is cut off.
        drafts: how siblings are chosen.
        lazy: leaves open what the rule does not look at.

    Raises:
        ValueError: if `length` is too small, if a family is larger than the vocabulary (`distinct`, `fixed`), if a
            threshold depends on a token that the rule does not judge, or if `p` or `q` is no distribution.
    """
    depth = max(TokenTree([0] * len(parents), parents).depths, default=0)
    if length <= depth:
        raise ValueError(f"a tree of depth {depth} writes up to {depth + 1} tokens, got length {length}")
    return _completed(_written(rule, parents, p, q, drafts, lazy), p, length)


def distance(
    rule: Rule,
    parents: Sequence[int],
    p: NextProbs,
    q: NextProbs,
    drafts: Siblings = "independent",
    *,
    lazy: bool = True,
) -> float:
    """Total variation between what is written from here on with one round of `rule`, and without. Raises alike.

    The same as `total_variation` of `output_distribution` and `target_distribution` at any length that is long
    enough, but without listing every text: after what a round wrote, both distributions go on alike. NaN if the rule
    draws its last token from a distribution after a node that it did not reach.
    """
    return departure(_written(rule, parents, p, q, drafts, lazy), p)


def departure(written: Mapping[Context, float], p: NextProbs) -> float:
    """Total variation between a distribution of texts of any lengths, each continued from `p`, and `p` alone."""
    inner = {text[:end] for text in written for end in range(len(text))}

    def below(text: Context, mass: float, target: float) -> float:
        mass += written.get(text, 0.0)
        if text not in inner:
            return abs(mass - target)
        return sum(
            below((*text, token), mass * chance, target * chance) for token, chance in enumerate(p(text))
        )

    return 0.5 * below((), 0.0, 1.0)


def expected_accepted(
    rule: Rule,
    parents: Sequence[int],
    p: NextProbs,
    q: NextProbs,
    drafts: Siblings = "independent",
    *,
    lazy: bool = True,
) -> float:
    """The mean number of nodes a round of `rule` accepts. Raises as `output_distribution`."""
    outcomes = rounds(rule, parents, p, q, drafts, lazy)
    return sum(chance * len(judgement.path) for _, judgement, chance in outcomes)


def total_variation(first: Mapping[Context, float], second: Mapping[Context, float]) -> float:
    """Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint ones."""
    return 0.5 * sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in {*first, *second})


def _completed(written: Mapping[Context, float], p: NextProbs, length: int) -> Distribution:
    """Texts of up to `length` tokens and their probabilities, each continued from `p` to that length."""
    texts: list[dict[Context, float]] = [defaultdict(float) for _ in range(length + 1)]
    for text, mass in written.items():
        texts[len(text)][text] += mass
    for shorter, longer in pairwise(texts):
        for text, mass in shorter.items():
            for token, chance in enumerate(p(text)):
                if chance > 0.0:
                    longer[(*text, token)] += mass * chance
    return dict(texts[-1])


def _written(
    rule: Rule, parents: Sequence[int], p: NextProbs, q: NextProbs, drafts: Siblings, lazy: bool
) -> Distribution:
    """The distribution of the tokens that a round commits, of any length."""
    distribution: dict[Context, float] = defaultdict(float)
    for tokens, judgement, chance in rounds(rule, parents, p, q, drafts, lazy):
        text = tuple(tokens[node] for node in judgement.path)
        for token, mass in enumerate(judgement.final.tolist()):
            if mass != 0.0:
                distribution[(*text, token)] += chance * mass
    return distribution
