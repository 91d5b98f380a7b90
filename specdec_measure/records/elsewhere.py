"""Records in other programs' forms: a timeline for Perfetto, a table for a pull request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specdec_core.foundations.errors import SpecdecError
from specdec_core.record.trace import Trace

PHASES = ("draft", "verify", "judge", "commit")


def label(trace: Trace) -> str:
    """A lane by its proposer, and its draft length where it has one."""
    settings = trace.header.settings
    length = settings.get("draft_length") if settings.get("proposer") != "none" else None
    return f"{settings.get('proposer', 'unknown')}" + (f", {length} guesses" if length else "")


def chrome_trace(traces: Sequence[Trace]) -> str:
    """Each lane as a process, each phase of a round as a slice, in the format of Chrome's tracing (Perfetto reads it).

    Raises:
        SpecdecError: one sentence, if a record has no times.
    """
    events: list[dict[str, Any]] = []
    for lane, trace in enumerate(traces):
        if trace.rounds and not trace.stats.decode_s:
            raise SpecdecError("A record without times has no timeline.")
        events.append({"ph": "M", "name": "process_name", "pid": lane, "args": {"name": label(trace)}})
        for row in trace.rounds:
            begin = row.start_s
            about = {
                "round": row.index, "guesses": len(row.nodes.token), "accepted": row.nodes.verdict.count("accepted"),
                "text": "".join(trace.texts.get(str(token), f"⟨{token}⟩") for token in row.committed.token),
            }  # fmt: skip
            for phase in PHASES:
                seconds = getattr(row, f"{phase}_s")
                if seconds:
                    events.append(
                        {"ph": "X", "name": phase, "cat": "round", "pid": lane, "tid": 0, "ts": 1e6 * begin,
                         "dur": 1e6 * seconds, "args": about}
                    )  # fmt: skip
                begin += seconds
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, ensure_ascii=False)


def markdown(traces: Sequence[Trace]) -> str:
    """A table with a line for each lane; the speedup is over the first lane that decodes plainly, if there is one."""
    plain = next((one for one in traces if one.header.settings.get("proposer") == "none"), None)
    baseline = plain.stats.tokens_per_second if plain else None
    lines = [
        "| lane | tokens | passes | tokens per pass | α | tokens/s | speedup |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for trace in traces:
        stats = trace.stats
        rate, speed = stats.acceptance_rate, stats.tokens_per_second
        cells = [
            label(trace).replace("|", "\\|"), f"{len(trace.token_ids):,}", f"{stats.target_passes:,}",
            f"{stats.tokens_per_pass:.2f}" if stats.tokens_per_pass else "–",
            f"{rate:.1%}" if rate is not None else "–", f"{speed:.1f}" if speed else "–",
            f"{speed / baseline:.2f}×" if speed and baseline else "–",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    first = traces[0].header
    return (
        "\n".join(lines)
        + f"\n\n{first.target.name}, {first.dtype} on {first.machine}; tokens/s without the prompt's pass.\n"
    )
