"""What an acceptance rule is: a pure function of tensors that walks a proposal tree and says how far it may go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import SettingsError
from ..settings import Settings
from ..trace import Source, Verdict
from ..tree import TokenTree


@dataclass(slots=True)
class Judgement:
    """What a rule decided about a whole tree.

    Attributes:
        path: the accepted nodes from the first level down; empty if none.
        verdicts: per node `accepted`, `rejected` or `unreached`.
        thresholds: per node the probability with which its coin let it pass; None where it was not judged.
        final: float32 (V,), the distribution from which the token after the path is drawn.
        source: `bonus` if nothing was rejected at that place, else `corrected`.
    """

    path: list[int]
    verdicts: list[Verdict]
    thresholds: list[float | None]
    final: Tensor
    source: Source


class Rule(ABC):
    """An acceptance rule. One file per rule; `RULES` in this package lists them.

    `lossless` is a claim: the law of the output equals the target's. The enumerator holds every rule to it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and what it costs
    lossless: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Refuse settings that this rule cannot serve.

        Raises:
            SettingsError: with one sentence.
        """
        unknown = sorted(set(settings.rule_options) - cls.options)
        if unknown:
            known = ", ".join(sorted(cls.options)) or "none"
            raise SettingsError(f"The rule '{cls.name}' has no option '{unknown[0]}'; it knows: {known}.")

    @abstractmethod
    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        """Judge the whole tree.

        Args:
            tree: n proposed nodes.
            p: float32 (n + 1, V); row 0 is the target's distribution after the root, row i + 1 after node i.
            q: float32 (n + 1, V), the distributions from which each position's children were drawn; None where
                the proposal was deterministic, which is a point mass at each node's token.
            coins: n uniform numbers in [0, 1); node i passes if coins[i] < its threshold.
        """
