"""At temperature 0 a rule may judge integers: the decision is that of its judging by whole distributions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.rules import RULES, Judgement, Rule
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.tree import TokenTree

from .tiny import PROMPTS, pair
from .trees import random_tree

VOCABULARY = 5
QUICK = ("speculative-sampling", "token-matching", "exact-match", "kseq")


@pytest.mark.parametrize("name", RULES)
def test_the_decision_is_the_same(name: str) -> None:
    """300 random trees, siblings with the same token among them. Catches: a wrong row, a verdict or threshold that
    differs, a rule that looks at more than the most likely token and judges integers all the same."""
    rng, rule = random.Random(name), RULES[name]()
    for size in range(1, 301):
        tree = random_tree(size % 12, VOCABULARY, rng)
        best = [rng.randrange(VOCABULARY) for _ in range(len(tree) + 1)]
        coins = [rng.random() for _ in range(len(tree))]
        decision = rule.judge_greedy(tree, best, coins)
        assert (decision is not None) is (name in QUICK)
        if decision is None:
            return
        p = torch.eye(VOCABULARY)[best]
        whole = rule.judge(tree, p, None, coins)
        assert (decision.path, decision.verdicts, decision.thresholds) == (
            whole.path,
            whole.verdicts,
            whole.thresholds,
        )
        assert decision.source_in(tree) == whole.source
        assert int(whole.final.argmax()) == best[decision.end] and float(whole.final.max()) == 1.0


class Never(SpeculativeSampling):
    """A changed rule, as in a notebook: nothing passes."""

    name = "never"

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return super().judge(tree, p, q, [1.0] * len(tree))


def test_a_changed_rule_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a subclass whose `judge` is never called at temperature 0, since its parent judges integers."""

    class Child(Never):
        """Inherits the change."""

    for kind in (Never, Child):
        assert kind().judge_greedy(TokenTree([1], [-1]), [1, 1], [0.5]) is None
        monkeypatch.setitem(RULES, "speculative-sampling", kind)
        trace = sd.decode(pair("llama"), PROMPTS[0], sd.Settings(max_new_tokens=12))
        assert trace.stats.accepted == 0
    assert issubclass(Child, Rule)
