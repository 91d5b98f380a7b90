"""Where each millisecond went: the time of one committed token, cut into phases, lanes side by side."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.theme import OTHER, PHASES, fill
from specdec_core.record.trace import Trace

from .chart import Chart
from .panels import broken, empty

TITLE = "Where did each millisecond go? Guessing pays off if the whole bar is shorter than plain decoding's"
LOOKS = {**PHASES, "other": OTHER}
ZERO_WIDTH = "\u200b"


def time_budget(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """Milliseconds per committed token by phase, without prefill and recording."""
    budgets = [budget(trace) for trace in traces]
    if not any(sum(found.values()) for found in budgets):
        said = "Nothing was timed, so there is no time to divide."
        return Chart(empty(said), TITLE, provenance, said)
    names = [broken(label, 16, 3) for label in labels]
    names = [name + ZERO_WIDTH * names[:at].count(name) for at, name in enumerate(names)]  # unique names
    figure = go.Figure(
        [
            go.Bar(
                name=phase,
                orientation="h",
                y=names,
                x=[found[phase] for found in budgets],
                marker=fill(colour, pattern),
                hovertemplate=phase + ": %{x:.2f} ms per token<extra>%{y}</extra>",
            )
            for phase, (colour, pattern) in LOOKS.items()
            if any(found[phase] for found in budgets)
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
    figure.update_layout(
        barmode="stack",
        bargap=0.4,
        height=120 + 52 * len(traces),
        margin={"l": 8, "r": 8, "t": 8, "b": 76},
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "x": 0,
            "title": "",
        },
        xaxis={
            "title": "milliseconds per committed token",
            "range": [0, max(totals) * 1.22],
            "zeroline": False,
        },
        yaxis={"categoryorder": "array", "categoryarray": names[::-1], "automargin": True},
        hovermode="closest",
        dragmode=False,
    )
    sentences = " ".join(
        f"{label}: {total:.2f} ms, of which "
        + ", ".join(f"{phase} {found[phase]:.2f}" for phase in LOOKS if found[phase])
        + "."
        for label, total, found in zip(labels, totals, budgets, strict=True)
        if total
    )
    return Chart(figure, TITLE, provenance, f"Milliseconds per committed token by phase. {sentences}")


def budget(trace: Trace) -> dict[str, float]:
    """Milliseconds per committed token in each phase; a plain lane's time before its passes is not drafting."""
    spent = dict.fromkeys(LOOKS, 0.0)
    stats = trace.stats
    if not stats.tokens:
        return spent
    first = "other" if trace.header.settings.get("proposer") == "none" else "draft"
    spent[first] += stats.draft_s
    spent["verify"] = stats.verify_s
    if trace.rounds:
        spent["judge"] = sum(row.judge_s for row in trace.rounds)
        spent["commit"] = sum(row.commit_s for row in trace.rounds)
    else:
        spent["other"] += stats.other_s
    return {phase: 1e3 * seconds / stats.tokens for phase, seconds in spent.items()}
