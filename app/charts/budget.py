"""Where each millisecond went: the time of one committed token, cut into parts, lanes side by side."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.theme import PARTS, fill
from specdec_core.record.trace import Trace

from .chart import AT_BOTTOM, Chart, lay_out
from .panels import distinct, empty

TITLE = "Where did each millisecond go? Guessing pays off if the whole bar is shorter than plain decoding's"


def time_budget(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """Milliseconds per committed token by part, without prefill and recording."""
    budgets = [budget(trace) for trace in traces]
    if not any(sum(found.values()) for found in budgets):
        said = "Nothing was timed, so there is no time to divide."
        return Chart(empty(said), TITLE, provenance, said)
    names = distinct(labels, 16)
    figure = go.Figure(
        [
            go.Bar(
                name=part,
                orientation="h",
                y=names,
                x=[found[part] for found in budgets],
                marker=fill(colour, pattern),
                hovertemplate=part + ": %{x:.2f} ms per token<extra>%{y}</extra>",
            )
            for part, (colour, pattern) in PARTS.items()
            if any(found[part] for found in budgets)
        ]
    )
    totals = [sum(found.values()) for found in budgets]
    figure.add_scatter(
        x=totals,
        y=names,
        mode="text",
        text=[f"\u00a0\u00a0{total:.2f} ms" for total in totals],
        textposition="middle right",
        textfont={"size": 12},
        cliponaxis=False,
        showlegend=False,
        hoverinfo="skip",
    )
    lay_out(
        figure,
        120 + 52 * len(traces),
        {"title": "milliseconds per committed token", "range": [0, max(totals)]},
        {"categoryorder": "array", "categoryarray": names[::-1], "automargin": True},
        legend=AT_BOTTOM | {"traceorder": "normal"},
        margin={"r": 78, "b": 76},  # room for the figures, however narrow the page is
        barmode="stack",
        bargap=0.4,
    )
    sentences = " ".join(
        f"{label}: {total:.2f} ms, of which "
        + ", ".join(f"{part} {found[part]:.2f}" for part in PARTS if found[part])
        + "."
        for label, total, found in zip(labels, totals, budgets, strict=True)
        if total
    )
    return Chart(figure, TITLE, provenance, f"Milliseconds per committed token by part. {sentences}")


def budget(trace: Trace) -> dict[str, float]:
    """Milliseconds per committed token in each part; a plain lane's time before its passes is not drafting."""
    spent = dict.fromkeys(PARTS, 0.0)
    stats = trace.stats
    if not stats.tokens:
        return spent
    plain = trace.header.settings.get("proposer") == "none"
    spent["other work" if plain else "draft"] += stats.draft_s
    spent["target pass"] += stats.verify_s
    spent["other work"] += stats.other_s
    return {part: 1e3 * seconds / stats.tokens for part, seconds in spent.items()}
