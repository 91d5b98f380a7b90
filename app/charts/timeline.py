"""Where the time of each lane goes: every part of every round, drawn on the lanes' common clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from app.text import count
from app.theme import PARTS, fill
from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace

from .chart import ABOVE, Chart, lay_out
from .panels import broken

MOST_ROUNDS = 40  # that can be told apart; of longer lanes each part is added up


def round_timeline(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """One bar per lane, cut into the parts of its rounds; position and width are seconds on the lane's clock.

    Where a lane has many rounds, every lane has one piece for each part: all its rounds together.
    """
    together = any(len(trace.rounds) > MOST_ROUNDS for trace in traces)
    unequal = len({trace.stats.tokens for trace in traces}) > 1  # passes alone would be compared in vain
    names = [
        f"{broken(label, 16, 3)}<br>{count(trace.stats.target_passes, 'pass')}"
        + (f"<br>{count(trace.stats.tokens, 'token')}" if unequal else "")
        for trace, label in zip(traces, labels, strict=True)
    ]
    spans = _spans(traces, names, together)
    hover = "%{customdata[1]:.3f} s in all" if together else "%{customdata[1]:.4f} s from %{base:.4f} s"
    figure = go.Figure(
        [
            go.Bar(
                name=part,
                orientation="h",
                y=columns["lane"],
                base=columns["start"],
                x=columns["length"],
                customdata=columns["hover"],  # of an offset bar plotly's own x is where it ends
                marker=fill(colour, pattern),
                hovertemplate="%{customdata[0]}<br>" + hover + "<extra></extra>",
            )
            for (part, (colour, pattern)), columns in zip(PARTS.items(), spans.values(), strict=True)
        ]
    )
    lay_out(
        figure,
        max(320, 104 + 72 * len(traces)),
        {"title": "seconds, prefill excluded", "rangemode": "tozero"},
        {
            "title": "",
            "categoryorder": "array",
            "categoryarray": list(reversed(names)),
            "automargin": True,
            "tickfont": {"size": 12},
        },
        legend=ABOVE,
        barmode="overlay",
        bargap=0.45,
        dragmode=None,
    )
    return Chart(
        figure=figure,
        title="How many target passes does the lane need, and how long does each take?"
        if all(map(_plain, traces))
        else "How many target passes does each lane need, and what does drafting cost?",
        provenance=provenance,
        alt=("Time of each part. " if together else "Timeline of rounds. ")
        + " ".join(_alt_text(trace, label) for trace, label in zip(traces, labels, strict=True)),
    )


def _spans(traces: Sequence[Trace], names: Sequence[str], together: bool) -> dict[str, dict[str, list[Any]]]:
    """For each part the columns of its bars: round by round, or all rounds of a lane in one."""
    spans: dict[str, dict[str, list[Any]]] = {
        part: {"lane": [], "start": [], "length": [], "hover": []} for part in PARTS
    }
    for trace, name in zip(traces, names, strict=True):
        parts = ("other work" if _plain(trace) else "draft", "target pass", "other work")
        rounds = [(row.start_s, _lengths(row), f"round {row.index + 1}") for row in trace.rounds]
        if together and rounds:
            before, passes, after = (sum(row[place] for _, row, _ in rounds) for place in range(3))
            sums = [0.0, passes, before + after] if _plain(trace) else [before, passes, after]
            rounds = [(0.0, sums, count(len(rounds), "round"))]
        for begin, lengths, of in rounds:
            starts = accumulate(lengths[:-1], initial=begin)
            for part, start, length in zip(parts, starts, lengths, strict=True):
                if length > 0:
                    bar = {"lane": name, "start": start, "length": length, "hover": (f"{part}, {of}", length)}
                    for column, value in bar.items():
                        spans[part][column].append(value)
    return spans


def _lengths(row: Round) -> list[float]:
    return [row.draft_s, row.verify_s, row.judge_s + row.commit_s]


def _alt_text(trace: Trace, label: str) -> str:
    stats = trace.stats
    drafting = "" if _plain(trace) else f"drafting {stats.draft_s:.2f} s, "
    return (
        f"{label}: {count(stats.target_passes, 'target pass')} in {stats.decode_s:.2f} s, "
        f"of which {drafting}verifying {stats.verify_s:.2f} s."
    )


def _plain(trace: Trace) -> bool:
    """Whether the lane never guesses, so that none of its time is drafting."""
    return trace.header.settings.get("proposer") == "none"
