"""Lossless means proven: the enumerated law of every lossless rule is the target's, to rounding."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from torch import Tensor

from specdec_core.exact import Context, Law, output_law, target_law, total_variation
from specdec_core.rules import RULES, Judgement, Rule
from specdec_core.rules.recursive_rejection import walk
from specdec_core.tree import TokenTree

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless and name != "exact-match"]
SHAPES = [
    shape for size in range(1, 5) for shape in itertools.product(*(range(-1, node) for node in range(size)))
]


def random_law(seed: int, vocabulary: int = 3, zeros: bool = False) -> Law:
    """A law whose distributions differ from context to context; with `zeros`, one token is impossible in each."""

    def law(context: Context) -> Sequence[float]:
        source = random.Random(f"{seed}:{context}")
        weights = [source.random() + 0.05 for _ in range(vocabulary)]
        if zeros:
            weights[source.randrange(vocabulary)] = 0.0
        return [weight / sum(weights) for weight in weights]

    return law


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("sampled", [True, False], ids=["drawn", "most-likely"])
def test_a_lossless_rule_writes_the_targets_law_on_every_tree_of_up_to_four_nodes(
    name: str, sampled: bool
) -> None:
    for number, shape in enumerate(SHAPES):
        if not sampled and max((shape.count(parent) for parent in shape), default=0) > 3:
            continue  # three tokens cannot be four different siblings
        p, q = random_law(number), random_law(1000 + number, zeros=number % 2 == 1)
        length = max(TokenTree([0] * len(shape), shape).depths) + 1
        law = output_law(RULES[name](), shape, p, q, length, sampled=sampled)
        assert total_variation(law, target_law(p, length)) <= 1e-12, shape


@pytest.mark.parametrize("name", RULES)
def test_every_rule_keeps_the_text_of_a_one_hot_target(name: str) -> None:
    """At temperature 0 the target's law is one-hot, and every rule must reproduce the greedy text."""
    greedy = random_law(5)

    def p(context: Context) -> Sequence[float]:
        weights = greedy(context)
        return [1.0 if weight == max(weights) else 0.0 for weight in weights]

    for shape in SHAPES:
        if max((shape.count(parent) for parent in shape), default=0) > 3:
            continue
        length = max(TokenTree([0] * len(shape), shape).depths) + 1
        law = output_law(RULES[name](), shape, p, random_law(7), length, sampled=False)
        assert total_variation(law, target_law(p, length)) <= 1e-12, shape


class ResampleFromTarget(Rule):
    """A rule found in the wild: after a rejection the next token is drawn from p instead of the residual."""

    name = "resample-from-target"
    title = summary = ""

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = walk(tree, p, q, coins)
        place = judgement.path[-1] + 1 if judgement.path else 0
        judgement.final = p[place]
        return judgement


def test_the_enumerator_measures_a_broken_rule_exactly() -> None:
    """p = (.5, .3, .2), q = (.2, .3, .5), γ = 1: resampling from p writes (.35, .39, .26), a distance of 0.15."""
    p, q = (lambda context: (0.5, 0.3, 0.2)), (lambda context: (0.2, 0.3, 0.5))
    law = output_law(ResampleFromTarget(), [-1], p, q, 2)
    first = [sum(mass for text, mass in law.items() if text[0] == token) for token in range(3)]
    assert first == pytest.approx([0.35, 0.39, 0.26], abs=1e-12)
    assert total_variation(law, target_law(p, 2)) == pytest.approx(0.15, abs=1e-12)


def test_a_length_that_would_cut_a_round_is_refused() -> None:
    with pytest.raises(ValueError, match="writes up to 3 tokens"):
        output_law(RULES["speculative-sampling"](), [-1, 0], random_law(0), random_law(1), 2)
