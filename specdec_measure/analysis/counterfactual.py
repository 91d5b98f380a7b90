"""A recorded decode under another acceptance rule: same proposals, same coins, no model.

Each round of a full trace is judged again as recorded, from the numbers in the trace alone. The comparison is
exact per round. It does not simulate another run: after the first round in which the rules commit different
tokens, another run would continue from a different text, whereas the rounds compared here are still the recorded ones.
What a trace does not determine is refused with a sentence, never approximated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import SpecdecError, TraceError
from specdec_core.record.schema import Round, Verdict
from specdec_core.record.trace import Trace, as_trace
from specdec_core.rules import Decision, rule_class
from specdec_core.rules.recorded import RecordedRound
from specdec_core.settings import SAMPLING, Settings

if TYPE_CHECKING:
    from specdec_core.proposers import Drafts

TREES: tuple[Drafts, ...] = ("fixed tree", "independent tree", "distinct tree")


@dataclass(frozen=True, slots=True)
class Rejudged:
    """One recorded round under another rule.

    Attributes:
        index: of the round.
        path: the accepted nodes that would have been committed, from the first level down.
        verdicts: one per node of the record, pruned and discarded ones included.
        thresholds: each node's acceptance probability; None where it would not have been judged.
        tokens: how many tokens the round would have committed: the accepted ones and, unless the text ended in one
            of them, the corrected or bonus token.
        recorded: how many it did commit.
        same: whether the same nodes were accepted as in the record.
    """

    index: int
    path: list[int]
    verdicts: list[Verdict]
    thresholds: list[float | None]
    tokens: int
    recorded: int
    same: bool


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A whole trace under another rule; see the module docstring for what this means."""

    rule: str
    options: dict[str, Any]
    lossless: bool
    rounds: list[Rejudged]

    @property
    def tokens_per_pass(self) -> float | None:
        """Committed tokens per recorded round under the other rule; None without rounds."""
        return sum(row.tokens for row in self.rounds) / len(self.rounds) if self.rounds else None

    @property
    def recorded_tokens_per_pass(self) -> float | None:
        """The same for the rule that was used."""
        return sum(row.recorded for row in self.rounds) / len(self.rounds) if self.rounds else None

    @property
    def parts_at(self) -> int | None:
        """The first round in which other nodes are accepted, so that the texts diverge; None if there is none.

        They may diverge sooner: where both rules correct at the same place, a different residual may yield
        a different token.
        """
        return next((row.index for row in self.rounds if not row.same), None)


def judge_again(trace: Trace, rule: str, rule_options: Mapping[str, Any] | None = None) -> Counterfactual:
    """Judge every round of `trace` under another rule, with the recorded coins.

    Args:
        trace: recorded with `record="full"`.
        rule: name of a rule; the one that was used reproduces the record.
        rule_options: the rule's own; those of the record if the rule is the same and none are given.

    Raises:
        SettingsError: one sentence, for an unknown rule, wrong options, or a rule that cannot serve the settings.
        TraceError: one sentence, if it is no trace, or the record lacks what this rule needs.
    """
    trace = as_trace(trace)
    kind, names = rule_class(rule), ("rule", "rule_options", *SAMPLING)
    recorded = Settings(
        **{name: trace.header.settings[name] for name in names if name in trace.header.settings}
    )
    if rule_options is None:
        rule_options = recorded.rule_options if rule == recorded.rule else {}
    settings = recorded.but(rule=rule, rule_options=dict(rule_options))
    kind.check(settings)
    options = kind.read_options(settings)
    repeats = rule == recorded.rule and options == kind.read_options(recorded)
    _check(trace)
    judge, rounds = kind(options), []
    for row in trace.rounds:
        met = row.nodes.threshold if repeats else None
        seen = RecordedRound(row, kind, settings, met, trace.header.own_probabilities)
        if not seen.tree.is_chain and all(kind.unsuited(drafts) for drafts in TREES):
            raise TraceError(
                f"Round {row.index} of this trace proposes a tree, and the rule '{rule}' judges chains. Choose "
                "'speculative-sampling', or a trace of a proposer that drafts a chain."
            )
        decision = judge.judge_recorded(seen)
        rounds.append(_close(row, decision, _ends(trace, row)))
    return Counterfactual(rule, options.model_dump(), kind.lossless, rounds)


def why_not(trace: Trace, rule: str, rule_options: Mapping[str, Any] | None = None) -> str | None:
    """Why `judge_again` would refuse, as a sentence; None if it would not."""
    try:
        judge_again(trace, rule, rule_options)
    except SpecdecError as error:
        return str(error)
    return None


def _check(trace: Trace) -> None:
    """Refuse a record without probabilities.

    Raises:
        TraceError: one sentence.
    """
    mode = trace.header.settings.get("record")
    for row in trace.rounds:
        nodes, size = row.nodes, row.nodes_read
        for column in (nodes.coin, nodes.p, nodes.q, nodes.model_p, nodes.rank, nodes.entropy):
            if column is None or any(value is None for value in column[:size]):
                raise TraceError(
                    f"Round {row.index} of this trace holds no probabilities (it was recorded with record='{mode}'), "
                    "so it cannot be judged again. Record the decode with record='full'."
                )
    if not trace.rounds:
        raise TraceError(
            f"This trace holds no rounds (it was recorded with record='{mode}'), so there is nothing to judge again. "
            "Record the decode with record='full'."
        )


def _ends(trace: Trace, row: Round) -> set[int]:
    """The nodes at which the text is known to end: the one that ended it, and any copy of an end-of-sequence token."""
    accepted = [node for node, verdict in enumerate(row.nodes.verdict) if verdict == "accepted"]
    ends = set(accepted[-1:]) if len(accepted) == len(row.committed.token) else set()
    if trace.end == "eos" and trace.output.ids:
        ends.update(node for node, token in enumerate(row.nodes.token) if token == trace.output.ids[-1])
    return ends


def _close(row: Round, decision: Decision, ends: set[int]) -> Rejudged:
    """The judged round, cut where the text ends and completed with the nodes no rule judges."""
    path, verdicts = decision.path, decision.verdicts
    kept = next((place for place, node in enumerate(path, start=1) if node in ends), len(path) + 1)
    if kept <= len(path):
        alive = {-1, *path[: kept - 1]}
        verdicts = [
            "cut" if verdict in ("accepted", "rejected") and row.nodes.parent[node] not in alive else verdict
            for node, verdict in enumerate(verdicts)
        ]
    size = len(verdicts)
    recorded = [node for node, verdict in enumerate(row.nodes.verdict) if verdict == "accepted"]
    return Rejudged(
        index=row.index,
        path=path[:kept],
        verdicts=[*verdicts, *row.nodes.verdict[size:]],
        thresholds=[*decision.thresholds, *[None] * (len(row.nodes.verdict) - size)],
        tokens=kept,
        recorded=len(row.committed.token),
        same=path[:kept] == recorded,
    )
