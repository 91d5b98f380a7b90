"""Tokens against time: the race as a picture, the slope is the speed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate

import plotly.graph_objects as go

from app.text import count
from app.theme import look
from specdec_core.record.trace import Trace

from .chart import ABOVE, Chart, lay_out


def tokens_against_time(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """A step line for each lane: each round's committed tokens are added at its end."""
    figure = go.Figure()
    for lane, (trace, label) in enumerate(zip(traces, labels, strict=True)):
        colour, dash, *_ = look(lane)
        clock = [0.0, *(row.end_s for row in trace.rounds)]
        tokens = list(accumulate((len(row.committed.token) for row in trace.rounds), initial=0))
        figure.add_scatter(
            name=escape(_named(trace, label), quote=False),
            x=clock,
            y=tokens,
            mode="lines",
            cliponaxis=False,
            line={"shape": "hv", "color": colour, "dash": dash, "width": 2.5},
            hovertemplate="%{y} tokens after %{x:.3f} s<extra>" + escape(label, quote=False) + "</extra>",
        )
    lay_out(
        figure,
        320,
        {"title": "seconds, prefill excluded", "rangemode": "tozero", "zeroline": True},
        {"title": "committed tokens", "rangemode": "tozero", "zeroline": True},
        legend=ABOVE,
        dragmode=None,
    )
    sentences = " ".join(
        f"{label}: {count(trace.stats.tokens, 'token')} in {trace.stats.decode_s:.2f} s"
        + (f", {trace.stats.tokens_per_second:.0f} per second." if trace.stats.tokens_per_second else ".")
        for trace, label in zip(traces, labels, strict=True)
    )
    return Chart(
        figure=figure,
        title="How fast does the text grow? The slope is the speed"
        if len(traces) == 1
        else "Which line is steeper? The slope is the speed",
        provenance=provenance,
        alt=f"Committed tokens against decoding time. {sentences}",
    )


def _named(trace: Trace, label: str) -> str:
    speed = trace.stats.tokens_per_second
    return f"{label}: {speed:.{0 if speed >= 100 else 1}f} tokens/s" if speed else label
