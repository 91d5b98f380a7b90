"""A recorded round as a rule would have seen it: plain numbers, no tensors. Refuses what the record lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import TraceError
from specdec_core.record.schema import Round
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .base import Decision, Ratio, walk

if TYPE_CHECKING:
    from .base import Rule


class RecordedRound:
    """One recorded round as a rule of some kind would have seen it; lists have one entry per node of the tree.

    `p` and `q` are what the rule judges by; `p_max` and `entropy` belong to the distribution that p is taken from.
    They are the warped ones above temperature 0, and at temperature 0 one-hot vectors, or the models' own
    probabilities for a rule that uses those. A deterministic proposal has q = 1.

    Args:
        row: the round; nodes the target never read come after the others and are left out.
        kind: the rule.
        settings: of the decode, with this rule.
        met: the recorded thresholds, if this rule with these options judged the round; else None. The rule
            reproduces them exactly.
        own_probabilities: what the record's header says.

    Raises:
        TraceError: one sentence, if the record does not hold the probabilities that the rule judges by.
    """

    def __init__(
        self,
        row: Round,
        kind: type[Rule],
        settings: Settings,
        met: Sequence[float | None] | None,
        own_probabilities: bool,
    ) -> None:
        nodes, size = row.nodes, row.nodes_read
        self.row, self.rule, self.met = row, kind.name, met
        self.tree = TokenTree(nodes.token[:size], nodes.parent[:size])
        self.coins = self._numbers(nodes.coin)
        self.one_hot = settings.temperature == 0.0 and not kind.own_probabilities
        penalised = bool(settings.no_repeat_ngram_size) or (settings.repetition_penalty or 1.0) != 1.0
        if self.one_hot:
            self.p, self.q = [float(rank == 1) for rank in self._numbers(nodes.rank)], [1.0] * size
        elif settings.temperature == 0.0 and not penalised:
            self.p, self.q = self._numbers(nodes.model_p), self._guessed(nodes.model_q)
        elif settings.temperature == 0.0 and not own_probabilities:
            # The record has the models' own probabilities before the penalty, and after it only where they were judged.
            raise self.lacks("the models' probabilities after the penalty")
        else:
            self.p, self.q = self._numbers(nodes.p), self._numbers(nodes.q)
        self.warped = penalised or (
            settings.temperature > 0.0
            and (
                settings.temperature != 1.0
                or settings.top_k > 0
                or settings.top_p < 1.0
                or bool(settings.min_p)
            )
        )
        self.drawn = any(value != 1.0 for value in self.q)

    @property
    def p_max(self) -> list[float]:
        return self._known(self.row.nodes.p_max, "the largest probabilities")

    @property
    def entropy(self) -> list[float]:
        """That of p above temperature 0 or after a penalty; it is the model's own where nothing was warped."""
        if not self.warped:
            return self._numbers(self.row.nodes.entropy)
        return self._known(self.row.nodes.p_entropy, "the entropy of the warped distributions")

    @property
    def recursive(self) -> list[float]:
        """The threshold of recursive rejection at every node of a drawn tree."""
        return self._known(
            self.row.nodes.recursive, "what is left of the target's distribution after drawn siblings"
        )

    def walk(self, ratio: Ratio, weight: float = 1.0) -> Decision:
        """See `base.walk`."""
        if self.met is None:
            return walk(self.tree, self.coins, ratio, weight)
        return walk(self.tree, self.coins, self._again)

    def _again(self, node: int, failed: list[int]) -> float:
        """The recorded threshold of the node."""
        met = self.met[node] if self.met is not None else None
        if met is None:
            raise self.lacks("the threshold of every judged node")
        return met

    def _numbers(self, column: Sequence[float | None] | None) -> list[float]:
        """The entries of a column, without missing ones."""
        return [value for value in (column or [])[: self.row.nodes_read] if value is not None]

    def _known(self, column: Sequence[float | None] | None, what: str) -> list[float]:
        """A column that not every trace has."""
        values = self._numbers(column)
        if len(values) < len(self.tree):
            raise self.lacks(what)
        return values

    def _guessed(self, model_q: list[float | None] | None) -> list[float]:
        """The draft's own probabilities; 1 for a proposal without."""
        if not self._numbers(model_q):
            return [1.0] * len(self.tree)
        return self._known(model_q, "the draft's own probability of every proposed token")

    def lacks(self, what: str) -> TraceError:
        """The refusal where the record does not hold what the rule needs."""
        return TraceError(
            f"Round {self.row.index} of this trace does not hold {what}, which the rule '{self.rule}' needs to judge "
            "it again. Record the decode again, with this rule or by this version."
        )
