"""Lossless means proven: the enumerated distribution of every lossless rule is the target's, to rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_core.rules import RULES, Judgement, Rule, kseq
from specdec_core.rules.block import Block
from specdec_core.rules.speculative_sampling import SpeculativeSampling, judge
from specdec_core.tree import TokenTree
from specdec_measure.exact import distribution
from specdec_measure.exact.distribution import (
    Siblings,
    distance,
    expected_accepted,
    output_distribution,
    target_distribution,
    total_variation,
)

from .toys import (
    Shape,
    family,
    is_chain,
    large_trees,
    numbered_trees,
    one_hot,
    ordered_trees,
    random_next_probs,
)

SIBLINGS: tuple[Siblings, ...] = ("independent", "distinct", "fixed")
ROUNDING = 1e-12
GREEDY_ONLY = "exact-match"
LOSSLESS = [name for name, rule in RULES.items() if rule.lossless and name != GREEDY_ONLY]


@pytest.fixture(autouse=True, scope="module")
def _scale_is_searched_once() -> Iterator[None]:
    """k-SEQ's ρ is a function of p and the siblings' q alone, and an enumeration asks for the same ones again and
    again: each is searched for once."""
    known: dict[tuple[bytes, bytes], float] = {}
    search = kseq._scale

    def scale(p: Tensor, q: Tensor) -> float:
        key = p.numpy().tobytes(), q.numpy().tobytes()
        if key not in known:
            known[key] = search(p, q)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kseq, "_scale", scale)
        yield


def suits(rule: type[Rule], shape: Shape, drafts: Siblings) -> bool:
    """Whether the rule says it can judge such proposals."""
    kinds = {"independent": "independent tree", "distinct": "distinct tree", "fixed": "fixed tree"}
    return rule.unsuited("chain" if is_chain(shape) else kinds[drafts]) is None  # type: ignore[arg-type]


def farthest(name: str, shapes: Sequence[Shape], drafts: Siblings) -> tuple[int, float, Shape]:
    """How many shapes the rule suits, its greatest distance from the target on them, and on which.

    The vocabulary is small, since every text is gone through: two tokens, or as many as there are siblings to tell
    apart, and three on the smaller trees.
    """
    worst, count = (0.0, ()), 0
    for number, shape in enumerate(shapes):
        if suits(RULES[name], shape, drafts):
            vocabulary = max(3 if len(shape) < 5 else 2, 1 if drafts == "independent" else family(shape))
            p = random_next_probs(f"p{number}", vocabulary, zeros=number % 2 == 1)
            q = random_next_probs(f"q{number}", vocabulary, zeros=number % 3 > 0)
            off = distance(RULES[name](), shape, p, q, drafts)
            worst, count = max(worst, (off if off == off else 1.0, shape)), count + 1
    return count, *worst


@pytest.mark.parametrize("drafts", SIBLINGS)
@pytest.mark.parametrize("name", LOSSLESS)
def test_a_lossless_rule_writes_the_targets_distribution_on_every_ordered_tree_of_up_to_six_nodes(
    name: str, drafts: Siblings
) -> None:
    """The proof that stands behind the word lossless. p and q differ in every context, and some rule tokens out.

    Catches: any wrong threshold, residual, order of siblings or final distribution. The tolerance is rounding.
    """
    shapes = [shape for size in range(1, 7) for shape in ordered_trees(size)]
    assert len(shapes) == 196
    count, off, shape = farthest(name, shapes, drafts)
    assert off <= ROUNDING, biased(name, off, drafts, shape)
    assert count == 196 if name in ("speculative-sampling", "token-matching") else count in (6, 196)


def biased(name: str, off: float, drafts: Siblings, shape: Shape) -> str:
    """What a failure means."""
    return (
        f"the rule '{name}' says it is lossless, but what it writes is {off:.2g} away from the target's distribution, "
        f"with {drafts} drafts on the tree of parents {list(shape)}: correct its thresholds or `final`, refuse such "
        "trees in `unsuited`, or set `lossless = False`"
    )


FOR_TREES = [name for name in LOSSLESS if any(suits(RULES[name], (-1, -1), kind) for kind in SIBLINGS)]


@pytest.mark.parametrize("name", FOR_TREES)
def test_and_on_two_hundred_larger_trees(name: str) -> None:
    """Seven to twelve nodes in any topological order. Catches: a walk that trusts the numbering of the nodes.

    A Latin square: a rule judges each tree once, and the ways to draft take turns; a tree that one rule judges drawn,
    the next one judges fixed. How siblings are drafted does not depend on how large the tree is around them, and the
    test above has all three ways on every small one.
    """
    trees, judged = large_trees(200), 0
    kinds = [kind for kind in SIBLINGS if suits(RULES[name], (-1, -1), kind)]
    for turn, drafts in enumerate(kinds, start=FOR_TREES.index(name)):
        count, off, shape = farthest(name, trees[turn % len(kinds) :: len(kinds)], drafts)
        assert off <= ROUNDING, biased(name, off, drafts, shape)
        judged += count
    assert judged == 200


@pytest.mark.parametrize("drafts", SIBLINGS)
def test_and_block_verification_on_long_chains(drafts: Siblings) -> None:
    """Chains of up to nine over two tokens. Catches: a slip that shows only where many ratios have been multiplied."""
    for length in range(1, 10):
        p, q = random_next_probs(f"p{length}", 2), random_next_probs(f"q{length}", 2)
        assert distance(Block(), range(-1, length - 1), p, q, drafts) <= ROUNDING


@pytest.mark.parametrize("drafts", SIBLINGS)
@pytest.mark.parametrize("name", [*LOSSLESS, GREEDY_ONLY])
def test_every_lossless_rule_keeps_the_text_of_a_one_hot_target(name: str, drafts: Siblings) -> None:
    """Temperature 0, where 0/0 and empty residuals are the rule. Catches: a rule that is exact only on full support."""
    for number, shape in enumerate(shape for size in range(1, 6) for shape in ordered_trees(size)):
        if suits(RULES[name], shape, drafts):
            vocabulary = max(3, family(shape))
            p, q = (
                one_hot(random_next_probs(f"p{number}", vocabulary)),
                random_next_probs(f"q{number}", vocabulary),
            )
            draft = one_hot(q) if number % 2 and drafts == "independent" else q
            off = distance(RULES[name](), shape, p, draft, drafts)
            assert off <= ROUNDING, biased(name, off, drafts, shape)


class ResampleFromTarget(Rule):
    """A rule found in the wild: after a rejection the next token is drawn from p instead of the residual."""

    name = "resample-from-target"
    title = summary = ""

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = judge(tree, p, q, coins)
        place = judgement.path[-1] + 1 if judgement.path else 0
        judgement.final = p[place]
        return judgement


class StopsEarly(Block):
    """Block verification as it was once demanded in a review: stop at the first coin that fails."""

    name = "stops-early"

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        thresholds = super().judge(tree, p, q, coins).thresholds
        failed = False
        known = []
        for coin, threshold in zip(coins, thresholds, strict=True):
            failed = failed or threshold is None or coin >= threshold
            known.append(1.0 if failed else coin)
        return super().judge(tree, p, q, known)


class PeeksBelow(SpeculativeSampling):
    """Looks at a token it does not say it judged, and spoils the distribution only if that token is not 0."""

    name = "peeks-below"

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = judge(tree, p, q, coins)
        if not judgement.path and tree.tokens[-1] != 0:
            judgement.final = p[0]
        return judgement


class WaitsBelow(SpeculativeSampling):
    """Halves the first threshold if the token below is not 0."""

    name = "waits-below"

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = judge(tree, p, q, coins)
        if tree.tokens[-1] != 0 and judgement.thresholds[0] is not None:
            judgement.thresholds[0] *= 0.5
        return judgement


def test_the_enumerator_measures_a_broken_rule_exactly() -> None:
    """p = (.5, .3, .2), q = (.2, .3, .5), γ = 1: resampling from p writes (.35, .39, .26), a distance of 0.15.

    Catches: an enumerator that finds every rule lossless, or measures the distance wrongly.
    """
    p, q = (lambda context: (0.5, 0.3, 0.2)), (lambda context: (0.2, 0.3, 0.5))
    written = output_distribution(ResampleFromTarget(), [-1], p, q, 2)
    first = [sum(mass for text, mass in written.items() if text[0] == token) for token in range(3)]
    assert first == pytest.approx([0.35, 0.39, 0.26], abs=1e-12)
    assert total_variation(written, target_distribution(p, 2)) == pytest.approx(0.15, abs=1e-12)
    assert distance(ResampleFromTarget(), [-1], p, q) == pytest.approx(0.15, abs=1e-12)


@pytest.mark.parametrize("drafts", SIBLINGS)
@pytest.mark.parametrize(
    "kind", [*RULES.values(), ResampleFromTarget, StopsEarly], ids=lambda kind: kind.name
)
def test_leaving_open_what_is_not_judged_changes_nothing(
    kind: type[Rule], drafts: Siblings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the enumeration of every token and every coin, on all numbered trees of up to four nodes; the two ways
    to measure the distance and the mean number of accepted nodes too.

    Catches: a short cut of the enumerator that is none for some rule, right or wrong, lossless or not.
    """
    enumerate_rounds = distribution.rounds
    known: dict[bool, list[Any]] = {}  # one enumeration of a tree for all that is measured on it

    def rounds(*given: Any) -> list[Any]:
        lazy = given[-1]
        if lazy not in known:
            known[lazy] = list(enumerate_rounds(*given))
        return known[lazy]

    monkeypatch.setattr(distribution, "rounds", rounds)
    for number, shape in enumerate(shape for size in range(5) for shape in numbered_trees(size)):
        if family(shape) > 3 or not suits(kind, shape, drafts):
            continue
        known.clear()
        vocabulary = max(family(shape), 2)
        p = random_next_probs(f"p{number}", vocabulary, zeros=number % 2 == 1)
        q = random_next_probs(f"q{number}", vocabulary, zeros=number % 3 > 0)
        length = max(TokenTree([0] * len(shape), shape).depths, default=0) + 1
        quick, full = (
            output_distribution(kind(), shape, p, q, length, drafts, lazy=lazy) for lazy in (True, False)
        )
        assert total_variation(quick, full) <= ROUNDING, shape
        off = distance(kind(), shape, p, q, drafts)
        assert off == pytest.approx(total_variation(full, target_distribution(p, length)), abs=ROUNDING), (
            shape
        )
        means = (expected_accepted(kind(), shape, p, q, drafts, lazy=lazy) for lazy in (True, False))
        assert next(means) == pytest.approx(next(means), abs=ROUNDING), shape


def test_a_rule_that_looks_where_it_must_not_gives_itself_away() -> None:
    """Both cheats would pass for lossless if open tokens were always 0. Catches: an enumerator that certifies a rule
    because of the tokens it happened to put where none was decided."""
    p, q = random_next_probs("p"), random_next_probs("q")
    assert distance(PeeksBelow(), [-1, 0], p, q, lazy=False) > 0.001
    assert distance(PeeksBelow(), [-1, 0], p, q) > 0.001
    with pytest.raises(ValueError, match="the threshold of node 0 changed"):
        distance(WaitsBelow(), [-1, 0], p, q)
    assert distance(StopsEarly(), [-1, 0], p, q) > 0.001  # uses coins that block verification does not need


def test_a_rule_that_uses_an_undecided_distribution_is_not_certified() -> None:
    """Catches: a final distribution taken from after a node that was not reached, on which nothing is known yet."""

    class WrongRow(SpeculativeSampling):
        name = "wrong-row"

        def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
            judgement = judge(tree, p, q, coins)
            judgement.final = p[-1]
            return judgement

    off = distance(WrongRow(), [-1, 0], random_next_probs("p"), random_next_probs("q"))
    assert not off <= ROUNDING


def test_siblings_without_replacement_follow_the_distribution_of_drawing_again_until_new() -> None:
    """The enumerator's own drafting against a second construction of it: ordered pairs of different tokens have
    probability q(x) q(y) / (1 − q(x)). Catches: a renormalisation that forgets who was drawn before."""

    class Records(Rule):
        """Accepts nothing and writes token 3 x + y, which the pair of siblings was."""

        name = "records"
        title = summary = ""

        def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
            final = torch.zeros(9, dtype=torch.float64)
            final[3 * tree.tokens[0] + tree.tokens[1]] = 1.0
            return Judgement([], ["rejected"] * 2, [0.0, 0.0], final, "corrected")

    probs = [0.5, 0.3, 0.2]
    pad: Callable[[Sequence[float]], list[float]] = lambda row: [*row, *[0.0] * 6]  # noqa: E731
    written = output_distribution(
        Records(), [-1, -1], lambda _: pad(probs), lambda _: pad(probs), 2, "distinct", lazy=False
    )
    first = [sum(mass for text, mass in written.items() if text[0] == pair) for pair in range(9)]
    expected = [probs[x] * probs[y] / (1 - probs[x]) if x != y else 0.0 for x in range(3) for y in range(3)]
    assert first == pytest.approx(expected, abs=ROUNDING)


def test_what_cannot_be_enumerated_is_refused() -> None:
    """Catches: a distribution that silently lacks what was cut off, or siblings that repeat although they must not."""
    rule = SpeculativeSampling()
    with pytest.raises(ValueError, match="writes up to 3 tokens"):
        output_distribution(rule, [-1, 0], random_next_probs(0), random_next_probs(1), 2)
    for p, q, said in ((0.6, 0.5, "p after"), (0.5, 0.6, "q after"), (0.5, math.nan, "q after")):
        with pytest.raises(ValueError, match=rf"^{said} \[\] is no distribution: it is \["):
            distance(rule, [-1, 0], lambda text, p=p: [0.5, p], lambda text, q=q: [0.5, q])
    for drafts in ("distinct", "fixed"):
        with pytest.raises(
            ValueError, match="4 different siblings need as many tokens, the vocabulary has 3"
        ):
            distance(rule, [-1, -1, -1, -1], random_next_probs(0), random_next_probs(1), drafts)
