"""What an acceptance rule is: a pure function of tensors that walks a proposal tree and says how far it may go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from specdec_core.options import OptionSet, read
from specdec_core.record.schema import Judging, Source, Verdict
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Drafts


@dataclass(slots=True)
class Judgement:
    """What a rule decided about a whole tree.

    Attributes:
        path: the accepted nodes from the first level down; empty if none.
        verdicts: per node `accepted`, `rejected` or `unreached`.
        thresholds: per node the probability with which its coin let it pass; None where it was not judged. What a
            rule decides may depend on the tokens of these nodes and of the nodes above them, and on no others.
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
    judging: ClassVar[Judging] = "each"
    looks_ahead: ClassVar[bool] = False  # whether a node's threshold depends on tokens below it
    own_probabilities: ClassVar[bool] = False
    """At temperature 0, whether p and q are the models' own probabilities instead of one-hot vectors; a threshold on
    a one-hot vector would say nothing. The token after the path is still the most likely one of `final`."""

    class Options(OptionSet):
        """Has none."""

    def __init__(self, options: Any = None) -> None:
        self.options = self.Options() if options is None else options

    @classmethod
    def read_options(cls, settings: Settings) -> Any:
        """The validated options (an instance of `cls.Options`).

        Raises:
            SettingsError: with one sentence.
        """
        return read(f"the rule '{cls.name}'", cls.Options, settings.rule_options)

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Refuse settings that this rule cannot serve.

        Raises:
            SettingsError: with one sentence.
        """
        cls.read_options(settings)

    @classmethod
    def unsuited(cls, drafts: Drafts) -> str | None:
        """Why this rule cannot judge such proposals, as a sentence; None if it can."""
        return None

    @abstractmethod
    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        """Judge the whole tree.

        Args:
            tree: n proposed nodes.
            p: float32 (n + 1, V); row 0 is the target's distribution after the root, row i + 1 after node i.
            q: float32 (n, V), row i the distribution from which node i was drawn, given its earlier siblings; None
                where the proposal was deterministic, which is a point mass at each node's token.
            coins: n uniform numbers in [0, 1); node i passes if coins[i] < its threshold.
        """
