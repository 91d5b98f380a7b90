"""Who guessed what in a lane that looks up and drafts, and what the pair adds to the better of the two alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_core.record.trace import Trace


@dataclass(frozen=True, slots=True)
class ByWhom:
    """The rounds that one of the two proposed; `by` is its name, None where neither had a guess."""

    by: str | None
    rounds: int
    tokens: int

    @property
    def tokens_per_pass(self) -> float:
        """Tokens of these rounds over their number."""
        return self.tokens / self.rounds


def by_whom(trace: Trace) -> list[ByWhom]:
    """The rounds of a combined lane by who proposed, most tokens first; empty for any other lane."""
    if trace.header.settings.get("proposer") != "combined":
        return []
    found: dict[str | None, list[int]] = {}
    for row in trace.rounds:
        by = row.note.get("by")
        found.setdefault(by if isinstance(by, str) else None, []).append(len(row.committed.token))
    rows = [ByWhom(by, len(counts), sum(counts)) for by, counts in found.items()]
    return sorted(rows, key=lambda row: -row.tokens)


def added(trace: Trace, others: Sequence[Trace]) -> tuple[float, str] | None:
    """Tokens per pass of a combined lane over those of the better of its parts among `others`, and that one's name;
    None if none of its parts is among them, or another text was written."""
    parts = {row.by for row in by_whom(trace)}
    alone = {
        str(other.header.settings.get("proposer")): other.stats.tokens_per_pass
        for other in others
        if other.token_ids == trace.token_ids
    }
    known = [(rate, name) for name, rate in alone.items() if name in parts and rate]
    if not known or not trace.stats.tokens_per_pass:
        return None
    rate, name = max(known)
    return trace.stats.tokens_per_pass / rate, name


def sentences(traces: Sequence[Trace], labels: Sequence[str]) -> list[str]:
    """What there is to say of the combined lanes of a comparison."""
    said = []
    for trace, label in zip(traces, labels, strict=True):
        rows = by_whom(trace)
        if not rows:
            continue
        parts = ", ".join(
            f"{row.by or 'nobody'} in {row.rounds} ({row.tokens_per_pass:.2f} tokens per pass)"
            for row in rows
        )
        total = sum(row.rounds for row in rows)
        gain = added(trace, traces)
        beside = (
            f" Against {gain[1]} alone that is {gain[0]:.2f} times as many tokens per pass." if gain else ""
        )
        said.append(f"{label}: of {total} rounds, guesses came from {parts}.{beside}")
    return said
