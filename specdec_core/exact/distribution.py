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

from .enumeration import Context, Law, Siblings, rounds

Distribution = dict[Context, float]

__all__ = [
    "Context",
    "Distribution",
    "Law",
    "Siblings",
    "departure",
    "distance",
    "expected_accepted",
    "output_law",
    "target_law",
    "total_variation",
]


def target_law(p: Law, length: int) -> Distribution:
    """The distribution of `length` tokens drawn one by one from `p`: what a lossless rule must reproduce."""
    return _completed({(): 1.0}, p, length)


def output_law(
    rule: Rule,
    parents: Sequence[int],
    p: Law,
    q: Law,
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
        ValueError: if `length` is too small, if a family is larger than the vocabulary (`distinct`, `fixed`), or if
            a threshold depends on a token that the rule does not judge.
    """
    depth = max(TokenTree([0] * len(parents), parents).depths, default=0)
    if length <= depth:
        raise ValueError(f"a tree of depth {depth} writes up to {depth + 1} tokens, got length {length}")
    return _completed(_written(rule, parents, p, q, drafts, lazy), p, length)


def distance(
    rule: Rule, parents: Sequence[int], p: Law, q: Law, drafts: Siblings = "independent", *, lazy: bool = True
) -> float:
    """Total variation between what is written from here on with one round of `rule`, and without. Raises alike.

    The same as `total_variation` of `output_law` and `target_law` at any length that is long enough, but without
    listing every text: after what a round wrote, both distributions go on alike. NaN if the rule draws its last token
    from a distribution after a node that it did not reach.
    """
    return departure(_written(rule, parents, p, q, drafts, lazy), p)


def departure(written: Mapping[Context, float], p: Law) -> float:
    """Total variation between a distribution of texts of any lengths, each continued from `p`, and `p` alone."""
    inner = {text[:end] for text in written for end in range(len(text))}

    def below(text: Context, ours: float, target: float) -> float:
        ours += written.get(text, 0.0)
        if text not in inner:
            return abs(ours - target)
        return sum(
            below((*text, token), ours * chance, target * chance) for token, chance in enumerate(p(text))
        )

    return 0.5 * below((), 0.0, 1.0)


def expected_accepted(
    rule: Rule, parents: Sequence[int], p: Law, q: Law, drafts: Siblings = "independent", *, lazy: bool = True
) -> float:
    """The mean number of nodes a round of `rule` accepts. Raises as `output_law`."""
    ways = rounds(rule, parents, p, q, drafts, lazy)
    return sum(chance * len(judgement.path) for _, judgement, chance in ways)


def total_variation(first: Mapping[Context, float], second: Mapping[Context, float]) -> float:
    """Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint ones."""
    return 0.5 * sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in {*first, *second})


def _completed(written: Mapping[Context, float], p: Law, length: int) -> Distribution:
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
    rule: Rule, parents: Sequence[int], p: Law, q: Law, drafts: Siblings, lazy: bool
) -> Distribution:
    """The distribution of the tokens that a round commits, of any length."""
    law: dict[Context, float] = defaultdict(float)
    for tokens, judgement, chance in rounds(rule, parents, p, q, drafts, lazy):
        text = tuple(tokens[node] for node in judgement.path)
        for token, mass in enumerate(judgement.final.tolist()):
            if mass != 0.0:
                law[(*text, token)] += chance * mass
    return law
