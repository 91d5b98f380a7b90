"""Token matching: draw the target's own token and see whether it was proposed. Exact, but it ignores q."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base import Decision, Judgement, Rule
from .speculative_sampling import judge, judge_greedy, judge_recorded

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import TokenTree

    from .recorded import RecordedRound


class TokenMatching(Rule):
    """Sample-and-match: y ~ p is the output; drafting was right if y was proposed.

    Drawing y and comparing is equal in distribution to letting each proposed x pass with probability p(x) and
    removing x from p when it fails: recursive rejection with a point mass for q. In this form it has a coin and a
    threshold for each node like the other rules, and the token that did not match is still the one emitted.
    """

    name = "token-matching"
    title = "Token matching"
    summary = (
        "Draws the target's own next token and keeps the proposal only if it is the same one, so the text keeps the "
        "target's exact distribution. Above temperature 0 it accepts fewer sampled guesses than speculative sampling, "
        "because a likely proposal fails whenever the target happens to draw another token."
    )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return judge(tree, p, None, coins)

    def judge_greedy(self, tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision:
        return judge_greedy(tree, best, coins)

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        return judge_recorded(seen, points=True)
