"""All outcomes of a rule's round on a toy vocabulary, with their probabilities; the machinery behind `exact`.

A tree of twelve nodes can be filled in too many ways to try all. But a rule says which nodes it judged, and it must not
look at the tokens of others. So a token is chosen only when its node is judged, and a coin only when it can matter;
until then the token is arbitrary and varies, and the distributions after it are NaN, so that
a rule that looks where it must not is caught. `lazy=False` takes no such shortcut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specdec_core.foundations.lazy_torch import torch
from specdec_core.rules.base import Judgement, Rule
from specdec_core.tree import TokenTree

Context = tuple[int, ...]
NextProbs = Callable[[Context], Sequence[float]]  # tokens after the root → probabilities of the next one

Siblings = Literal["independent", "distinct", "fixed"]
"""How the siblings of a node are chosen: drawn from q with replacement; drawn without, so that q loses those already
drawn and is renormalised (any of the rest once q is exhausted); or the most likely tokens of q, which the rule
sees as deterministic."""

OPEN = -1  # an undecided token
SUM_TOLERANCE = 1e-4  # the most by which a distribution's sum may differ from 1, as in `theory`


def rounds(
    rule: Rule, parents: Sequence[int], p: NextProbs, q: NextProbs, drafts: Siblings, lazy: bool
) -> Iterator[tuple[list[int], Judgement, float]]:
    """All outcomes of a round, depth first: the nodes' tokens, the judgement, its probability.

    Raises:
        ValueError: if a family is larger than the vocabulary (`distinct`, `fixed`), or if a threshold depends
            on a token that the rule does not judge, or if what `p` or `q` gives is no distribution.
    """
    drafting = _Drafting(parents, p, q, drafts)
    judge = _Judge(rule, drafting, lazy)
    outcomes = drafting.start(filled=drafts == "fixed" or not lazy)
    while outcomes:
        outcome = outcomes.pop()
        judgement = judge(outcome, 0.0)
        while (node := judge.open(outcome, judgement)) is not None:
            if outcome.tokens[node] == OPEN:
                outcomes += drafting.choose(outcome, drafting.first_open(outcome, node))
                break
            threshold = judgement.thresholds[node]
            assert threshold is not None
            if 0.0 < threshold < 1.0:
                if judge.settled(outcome, judgement):
                    yield outcome.tokens, judgement, outcome.chance
                    break
                outcomes.append(outcome.after(node, threshold, 1.0, 1.0 - threshold))
                outcome = outcome.after(node, threshold, 0.0, threshold)
            else:
                outcome = outcome.after(node, threshold, 0.0, 1.0)
        else:
            yield outcome.tokens, judgement, outcome.chance


@dataclass(slots=True)
class _Outcome:
    """A partly decided outcome; rows of p and q that depend on open tokens are NaN."""

    tokens: list[int]
    p: NDArray[np.float64]
    q: NDArray[np.float64]
    coins: list[float | None]
    thresholds: list[float | None]  # the coins were compared with
    chance: float

    def after(self, node: int, threshold: float, coin: float, chance: float) -> _Outcome:
        """This outcome after `node` met its threshold with a coin of that probability; a coin of 1 fails."""
        coins, thresholds = self.coins.copy(), self.thresholds.copy()
        coins[node], thresholds[node] = coin, threshold
        return _Outcome(self.tokens, self.p, self.q, coins, thresholds, self.chance * chance)


def _checked(name: str, given: NextProbs) -> NextProbs:
    """`given`, which refuses to be no distribution."""

    def probs(context: Context) -> Sequence[float]:
        row = given(context)
        if not (min(row) >= 0.0 and abs(math.fsum(row) - 1.0) <= SUM_TOLERANCE):
            raise ValueError(
                f"{name} after {list(context)} is no distribution: it is {[round(x, 6) for x in row]}"
            )
        return row

    return probs


class _Drafting:
    """The tokens a node can be, given its decided ancestors and siblings."""

    def __init__(self, parents: Sequence[int], p: NextProbs, q: NextProbs, drafts: Siblings) -> None:
        self.tree = TokenTree([0] * len(parents), parents)
        self.paths = [self.tree.path(node) for node in range(len(parents))]
        self.elder = [
            [other for other in range(node) if parents[other] == parents[node]]
            for node in range(len(parents))
        ]
        self.p, self.drafts = _checked("p", p), drafts
        self.q = q if drafts == "fixed" else _checked("q", q)  # fixed guesses need only its order
        self.vocabulary = len(p(()))
        widest = max((len(elder) + 1 for elder in self.elder), default=0)
        if drafts != "independent" and widest > self.vocabulary:
            raise ValueError(
                f"{widest} different siblings need as many tokens, the vocabulary has {self.vocabulary}"
            )

    def start(self, filled: bool) -> list[_Outcome]:
        """Nothing decided but the root; if `filled`, all drafts of the whole tree."""
        size = len(self.tree)
        p = np.full((size + 1, self.vocabulary), np.nan)
        p[0] = self.p(())
        q = np.full((size, self.vocabulary), np.nan)
        if self.drafts == "independent":
            q[self.tree.children[0]] = self.q(())
        outcomes = [_Outcome([OPEN] * size, p, q, [None] * size, [None] * size, 1.0)]
        for node in range(size) if filled else ():
            outcomes = [longer for outcome in outcomes for longer in self.choose(outcome, node)]
        return outcomes

    def first_open(self, outcome: _Outcome, node: int) -> int:
        """The node to decide next so that `node` can be: an open ancestor, an open earlier sibling, or itself."""
        above = self.paths[node]
        needed = (
            above
            if self.drafts == "independent"
            else [other for step in above for other in (*self.elder[step], step)]
        )
        return next(other for other in needed if outcome.tokens[other] == OPEN)

    def choose(self, outcome: _Outcome, node: int) -> Iterator[_Outcome]:
        """The outcomes with the token of `node` decided as well."""
        context = tuple(outcome.tokens[step] for step in self.paths[node][:-1])
        probs = self._sibling_probs(context, [outcome.tokens[other] for other in self.elder[node]])
        for token, chance in enumerate(probs):
            if chance > 0.0:
                tokens, p, q = outcome.tokens.copy(), outcome.p.copy(), outcome.q.copy()
                tokens[node], p[node + 1], q[node] = token, self.p((*context, token)), probs
                if self.drafts == "independent":
                    q[self.tree.children[node + 1]] = self.q((*context, token))
                yield _Outcome(tokens, p, q, outcome.coins, outcome.thresholds, outcome.chance * chance)

    def _sibling_probs(self, context: Context, elder: list[int]) -> Sequence[float]:
        """The distribution of the next child after `context`, given its earlier siblings."""
        probs = self.q(context)
        if self.drafts == "independent":
            return probs
        rest = [token for token in range(self.vocabulary) if token not in elder]
        if self.drafts == "fixed":
            best = max(rest, key=lambda token: probs[token])
            return [float(token == best) for token in range(self.vocabulary)]
        mass = sum(probs[token] for token in rest)
        return [
            0.0 if token in elder else probs[token] / mass if mass > 0.0 else 1.0 / len(rest)
            for token in range(self.vocabulary)
        ]


class _Judge:
    """Runs the rule on a partly decided outcome and finds what must be decided next."""

    def __init__(self, rule: Rule, drafting: _Drafting, lazy: bool) -> None:
        self.rule = rule
        self.ahead = lazy and rule.looks_ahead
        self.tree, self.vocabulary = drafting.tree, drafting.vocabulary
        self.deterministic = drafting.drafts == "fixed"
        self.order = sorted(range(len(self.tree)), key=lambda node: (self.tree.depths[node], node))
        self.calls = 0

    def __call__(self, outcome: _Outcome, open_coin: float) -> Judgement:
        """The rule's judgement, with arbitrary tokens where they are open and `open_coin` for open coins."""
        self.calls += 1
        tree = copy(self.tree)
        tree.tokens = [
            (self.calls + node) % self.vocabulary if token == OPEN else token
            for node, token in enumerate(outcome.tokens)
        ]
        coins = [open_coin if coin is None else coin for coin in outcome.coins]
        q = None if self.deterministic else torch.from_numpy(outcome.q)
        judgement = self.rule.judge(tree, torch.from_numpy(outcome.p), q, coins)
        if judgement.limits is not None:  # by these, not by the thresholds, the coins decide
            judgement.thresholds = [*judgement.limits]
        for node, threshold in enumerate(judgement.thresholds):
            before = outcome.thresholds[node]
            if before is not None and threshold is not None and abs(threshold - before) > 1e-12:
                raise ValueError(
                    f"the threshold of node {node} changed from {before:g} to {threshold:g} when a node below or "
                    f"beside it was decided: '{self.rule.name}' looks at a token it does not say it judges, or looks "
                    "ahead without saying so"
                )
        return judgement

    def open(self, outcome: _Outcome, judgement: Judgement) -> int | None:
        """The judged node to decide next; None if all are decided."""
        judged = [node for node in self.order if judgement.thresholds[node] is not None]
        if self.ahead:
            tokens = (node for node in judged if outcome.tokens[node] == OPEN)
            return next(
                tokens, next((node for node in reversed(judged) if outcome.coins[node] is None), None)
            )
        return next(
            (node for node in judged if outcome.tokens[node] == OPEN or outcome.coins[node] is None), None
        )

    def settled(self, outcome: _Outcome, judgement: Judgement) -> bool:
        """Whether the open coins of a rule that looks ahead no longer matter: the same if none passes or all do."""
        if not self.ahead:
            return False
        other = self(outcome, 1.0)
        return other.path == judgement.path and torch.equal(other.final, judgement.final)
