"""The numbers of a run, added up round by round; `schema.Stats` says what each of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from specdec_core.tree import TokenTree

from .schema import Stats, Verdict


@dataclass(slots=True)
class RoundTally:
    """Sums over the rounds, kept in every recording mode."""

    passes: int = 0
    tokens: int = 0
    draft_passes: int = 0
    draft_s: float = 0.0
    verify_s: float = 0.0
    other_s: float = 0.0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    # by depth, the places at which something was judged
    judged: Counter[int] = field(default_factory=Counter)
    passed: Counter[int] = field(default_factory=Counter)  # by depth, those at which something was accepted
    branched: bool = False  # whether any proposal had siblings

    @property
    def clock(self) -> float:
        """The lane's clock: seconds spent in its rounds."""
        return self.draft_s + self.verify_s + self.other_s

    def add(
        self,
        tree: TokenTree,
        verdicts: Sequence[Verdict],
        tokens: int,
        draft_passes: int,
        seconds: Sequence[float],
    ) -> None:
        """Count one round: verdicts of the tree's nodes, then of nodes the target never saw; `seconds` are its draft,
        verify, judge and commit times."""
        draft, verify, judge, commit = seconds
        if verdicts:
            self._judge(tree, verdicts)
        self.passes += 1
        self.tokens += tokens
        self.draft_passes += draft_passes
        self.draft_s += draft
        self.verify_s += verify
        self.other_s += judge + commit

    def _judge(self, tree: TokenTree, verdicts: Sequence[Verdict]) -> None:
        accepted = verdicts.count("accepted")
        deepest = [
            depth for depth, verdict in zip(tree.depths, verdicts, strict=False) if verdict == "rejected"
        ]
        self.passed.update(range(1, accepted + 1))
        self.judged.update(range(1, accepted + 1 + (max(deepest, default=0) > accepted)))
        self.branched = self.branched or not tree.is_chain
        self.verdicts.update(verdicts)

    def stats(self, prefill_s: float, record_s: float) -> Stats:
        """The statistics as defined above."""
        counts = self.verdicts
        judged = counts["accepted"] + counts["rejected"]
        return Stats(
            tokens=self.tokens,
            target_passes=self.passes,
            proposed=counts.total(),
            accepted=counts["accepted"],
            rejected=counts["rejected"],
            unreached=counts["unreached"],
            cut=counts["cut"],
            pruned=counts["pruned"],
            discarded=counts["discarded"],
            acceptance_rate=counts["accepted"] / judged if judged and not self.branched else None,
            acceptance_by_depth=[self.passed[depth] / self.judged[depth] for depth in sorted(self.judged)],
            tokens_per_pass=self.tokens / self.passes if self.passes else None,
            tokens_per_second=self.tokens / self.clock if self.clock > 0 else None,
            prefill_s=prefill_s,
            draft_s=self.draft_s,
            verify_s=self.verify_s,
            other_s=self.other_s,
            record_s=record_s,
            draft_passes=self.draft_passes,
        )
