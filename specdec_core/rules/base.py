"""The interface of an acceptance rule: a pure function that decides how much of a proposal tree is accepted.

`walk` is how every rule that judges node by node goes down the tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from specdec_core.foundations.errors import TraceError
from specdec_core.foundations.options import OptionSet, read
from specdec_core.record.schema import Judging, Source, Verdict
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import Drafts

    from .recorded import RecordedRound

Ratio = Callable[[int, list[int]], float]
"""p/q of a node whose earlier siblings (in the list) have failed; p is what these left of it."""


@dataclass(slots=True)
class Decision:
    """How far a rule goes down a tree.

    Attributes:
        path: the accepted nodes from the first level down; empty if none.
        verdicts: per node `accepted`, `rejected` or `unreached`.
        thresholds: per node the probability with which its coin let it pass; None where it was not judged. What a
            rule decides may depend only on the tokens of these nodes and of their ancestors.
    """

    path: list[int]
    verdicts: list[Verdict]
    thresholds: list[float | None]

    @property
    def end(self) -> int:
        """The position the next token follows: 0 is the root, i + 1 node i."""
        return self.path[-1] + 1 if self.path else 0

    def source_in(self, tree: TokenTree) -> Source:
        """What the next token is: a corrected one if nodes were left to accept."""
        return "corrected" if tree.children[self.end] else "bonus"

    def then(self, tree: TokenTree, final: Tensor) -> Judgement:
        """The judgement in which the next token comes from `final`."""
        return Judgement(self.path, self.verdicts, self.thresholds, final, self.source_in(tree))


@dataclass(slots=True)
class Judgement(Decision):
    """What a rule decided about a whole tree.

    Attributes:
        final: float32 (V,), the distribution from which the token after the path is drawn.
        source: `bonus` if nothing was rejected there, else `corrected`.
        limits: per node, where its coin is compared, if that is not its threshold: for a rule by which a node may stay
            although its coin failed, and may count as failed for others. Such a rule looks at the tokens of all nodes.
    """

    final: Tensor
    source: Source
    limits: list[float] | None = None


def walk(tree: TokenTree, coins: Sequence[float], ratio_of: Ratio, weight: float = 1.0) -> Decision:
    """Descend to the first child that passes, and stop where none does.

    Below 1, `weight` w replaces p by the mixture w p + (1 − w) q at each child.
    """
    verdicts: list[Verdict] = ["unreached"] * len(tree)
    thresholds: list[float | None] = [None] * len(tree)
    path: list[int] = []
    position = 0
    while True:
        failed: list[int] = []
        for child in tree.children[position]:
            ratio = ratio_of(child, failed)
            threshold = min(1.0, 1.0 - weight + weight * ratio)
            thresholds[child] = threshold
            if coins[child] < threshold:
                verdicts[child] = "accepted"
                path.append(child)
                position = child + 1
                break
            verdicts[child] = "rejected"
            failed.append(child)  # the next child is judged by what this one's q left of p
        else:  # none has passed
            return Decision(path, verdicts, thresholds)


class Rule(ABC):
    """An acceptance rule. One file per rule; `RULES` in this package lists them.

    A file holds the rule's description, how it judges a tree by whole distributions, and how it judges a recorded
    round from the numbers in a trace; both share the arithmetic. The description needs no torch.

    `lossless` is a claim: the distribution of the output equals the target's. The enumerator checks each rule.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and what it costs
    lossless: ClassVar[bool] = True
    judging: ClassVar[Judging] = "each"
    looks_ahead: ClassVar[bool] = False  # whether a node's threshold depends on tokens below it
    own_probabilities: ClassVar[bool] = False
    """At temperature 0, whether p and q are the models' own probabilities instead of one-hot vectors: a threshold on
    a one-hot vector would be meaningless. The token after the path is still the most likely one of `final`."""

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

    @classmethod  # noqa: B027
    def check(cls, settings: Settings) -> None:
        """Refuse settings that this rule cannot serve, whatever its options.

        Raises:
            SettingsError: with one sentence.
        """

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

    def judge_greedy(self, tree: TokenTree, best: Sequence[int], coins: Sequence[float]) -> Decision | None:
        """Judge deterministic proposals at temperature 0 as `judge` would, from integers; None where only `judge` can.

        Args:
            best: the target's most likely token at each position: 0 after the root, i + 1 after node i.
        """
        return None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "judge" in vars(cls) and "judge_greedy" not in vars(cls):
            cls.judge_greedy = Rule.judge_greedy  # type: ignore[method-assign]  # the parent's judges another rule

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        """Judge a recorded round as `judge` would have judged it.

        Raises:
            TraceError: with one sentence, if the trace lacks what the rule needs.
        """
        raise TraceError(f"The rule '{self.name}' looks at whole distributions, which a trace does not keep.")
