"""Exact match: a proposed token stays if it is the target's most likely one. For temperature 0 only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import SettingsError
from specdec_core.settings import Settings

from .base import Decision, Judgement, Rule
from .speculative_sampling import judge, judge_greedy, judge_recorded

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import TokenTree

    from .recorded import RecordedRound


class ExactMatch(Rule):
    """Greedy verification (Stern et al. 2018, blockwise parallel decoding)."""

    name = "exact-match"
    title = "Exact match"
    summary = (
        "Keeps a proposed token only if it is the target's single most likely one, which is what greedy decoding would "
        "have written. It works only at temperature 0: above it, always taking the most likely token would change "
        "the distribution of the text."
    )

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        if settings.temperature > 0.0:
            raise SettingsError(
                "The rule 'exact-match' keeps only the target's most likely token, which is sampling at temperature "
                f"0; the temperature is {settings.temperature:g}. Set it to 0 or choose 'speculative-sampling'."
            )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return judge(tree, p, None, coins)  # p is one-hot: the threshold is 1 at the argmax and 0 elsewhere

    def judge_greedy(self, tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision:
        return judge_greedy(tree, best, coins)

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        return judge_recorded(seen, points=True)
