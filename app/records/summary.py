"""A trace in one line: what a list of runs shows of each lane, computed once from its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import log

from specdec_core.record.trace import Trace

MAX_LABEL = 200  # characters


@dataclass(frozen=True, slots=True)
class Summary:
    """One lane: its proposer, its results, and its audit's first finding, if any.

    `speedup` is the plain lane's time per token over this one's, in the same run; None if there is none. `firm`:
    whether it is more than the scatter of the rounds' times could bring; None also in runs kept before it was asked.
    """

    label: str
    proposer: str
    rule: str
    lossy: bool
    target: str
    draft: str | None
    tokens: int
    passes: int
    acceptance: float | None
    tokens_per_pass: float | None
    tokens_per_second: float | None
    speedup: float | None
    end: str
    problem: str | None
    firm: bool | None = None

    @property
    def plain(self) -> bool:
        """Whether this lane is plain decoding, the baseline."""
        return self.proposer == "none"


COLUMNS = tuple(field.name for field in fields(Summary))


def summarize(traces: Sequence[Trace], labels: Sequence[str]) -> Iterator[Summary]:
    """A summary of each lane of one run; the plain lane is the others' baseline, since they were raced together."""
    from app.metrics.numbers import measured_speedup
    from specdec_core.rules import lossy  # here and not above: they import torch
    from specdec_measure.analysis.diagnosis import scattered

    plain = next((trace for trace in traces if _setting(trace, "proposer") == "none"), None)
    for trace, label in zip(traces, labels, strict=True):
        stats, header = trace.stats, trace.header
        baseline = plain if plain is not trace else None
        speedup = measured_speedup(baseline.stats, stats) if baseline else None
        firm = None
        if speedup and baseline:
            firm = abs(log(speedup)) > log(scattered(baseline.rounds, trace.rounds))
        yield Summary(
            label=label[:MAX_LABEL],
            proposer=_setting(trace, "proposer"),
            rule=_setting(trace, "rule"),
            lossy=lossy(trace),
            target=header.target.name,
            draft=header.draft.name if header.draft else None,
            tokens=stats.tokens,
            passes=stats.target_passes,
            acceptance=stats.acceptance_rate,
            tokens_per_pass=stats.tokens_per_pass,
            tokens_per_second=stats.tokens_per_second,
            speedup=speedup,
            end=trace.end,
            problem=next(iter(trace.audit()), None),
            firm=firm,
        )


def _setting(trace: Trace, name: str) -> str:
    value = trace.header.settings.get(name)
    return value[:64] if isinstance(value, str) else "unknown"
