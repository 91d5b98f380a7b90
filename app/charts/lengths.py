"""How much to draft and verify: is the confidence right, and how far is each policy from the best choice there was?"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.theme import BLUE, GREY, look
from specdec_core.foundations.errors import TraceError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.record.trace import Trace
from specdec_measure.analysis.lengths import Reliability, Replayed, reliability, replayed, stretches
from specdec_measure.machines.costs import Costs

from .chart import Chart

TITLE = "How much to draft: is the confidence right, and what does each policy lose to hindsight?"
DEPTHS = 4
LONGEST_DRAFT = 16


def policies(trace: Trace, costs: Costs) -> list[Replayed]:
    """All policies and the fixed lengths on the record, by their regret; a bandit's time is the clock's.

    Raises:
        TraceError: one sentence, if the record cannot be replayed.
    """
    found = stretches(trace)
    most = min(LONGEST_DRAFT, max((len(one.confidences) for one in found), default=0))
    if not most or costs.draft is None:
        raise TraceError("No guess of a draft model is in this record.")
    if costs.widest is not None and most >= costs.widest:
        raise TraceError("Passes as wide as this record's are not known there.")
    curve = [costs.ratio(tokens) for tokens in range(1, most + 2)]
    cost = costs.cost_ratio or 0.0
    given = {"cost-aware": {"curve": curve, "cost_ratio": cost}}
    adaptive = [
        replayed(found, name, given.get(name, {}), most, curve, cost)
        for name in LENGTH_POLICIES
        if name != "fixed"
    ]
    fixed = [replayed(found, "fixed", {}, gamma, curve, cost) for gamma in range(1, most + 1)]
    best = min(fixed, key=lambda one: one.seconds)
    return sorted(
        [*adaptive, best, *([fixed[-1]] if best is not fixed[-1] else [])], key=lambda one: one.seconds
    )


def chosen_lengths(trace: Trace, label: str, costs: Costs, provenance: str) -> Chart | None:
    """Above, the share of guesses accepted against what the online fit predicted, by depth; below, the regret of each
    policy on these guesses. None if the record cannot be replayed."""
    try:
        ranked, points = policies(trace, costs), reliability(trace, DEPTHS)
    except TraceError:
        return None
    figure = make_subplots(
        rows=2, subplot_titles=["Confidence, by depth", "Time lost to hindsight"], vertical_spacing=0.2
    )
    names = [_named(one) for one in ranked]
    _draw_reliability(figure, points)
    _draw_regret(figure, ranked, names)
    figure.update_layout(
        height=620,
        margin={"l": 8, "r": 8, "t": 40, "b": 8},
        legend={"orientation": "h", "y": -0.08, "title": ""},
        dragmode=False,
    )
    said = ", ".join(f"{name} {one.regret:.0%}" for name, one in zip(names, ranked, strict=True))
    return Chart(
        figure,
        TITLE,
        f"modelled from the lane's rounds on this clock · {provenance}",
        f"Time over the best possible choice of draft lengths, {label}: {said}.",
    )


def _draw_reliability(figure: go.Figure, points: Sequence[Reliability]) -> None:
    """The share accepted against the prediction, a line for each depth."""
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": GREY, "dash": "dot"}, hoverinfo="skip", showlegend=False,
        row=1, col=1,
    )  # fmt: skip
    for depth in sorted({point.depth for point in points}):
        mine = [point for point in points if point.depth == depth]
        colour, dash, _, symbol = look(depth)
        figure.add_scatter(
            x=[point.predicted for point in mine],
            y=[point.accepted for point in mine],
            customdata=[point.count for point in mine],
            name=f"guess {depth}",
            mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 2},
            marker={"color": colour, "symbol": symbol, "size": 9},
            hovertemplate=f"guess {depth}: predicted %{{x:.0%}}, accepted %{{y:.0%}} of %{{customdata}}<extra></extra>",
            row=1,
            col=1,
        )
    figure.update_xaxes(title="predicted", tickformat=".0%", range=[-0.03, 1.03], row=1, col=1)
    figure.update_yaxes(title="accepted", tickformat=".0%", range=[-0.03, 1.03], row=1, col=1)


def _draw_regret(figure: go.Figure, ranked: Sequence[Replayed], names: Sequence[str]) -> None:
    """A bar for each policy, the shortest above."""
    figure.add_bar(
        x=[one.regret for one in ranked],
        y=names,
        orientation="h",
        marker={"color": [BLUE if one.policy == "cost-aware" else GREY for one in ranked]},
        text=[f" {one.regret:.0%}" for one in ranked],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.0%} longer than the best<extra></extra>",
        showlegend=False,
        row=2,
        col=1,
    )
    most = max(one.regret for one in ranked)
    figure.update_xaxes(tickformat=".0%", range=[0, max(0.1, 1.25 * most)], row=2, col=1)
    figure.update_yaxes(autorange="reversed", row=2, col=1)


def _named(one: Replayed) -> str:
    """A policy's title; a fixed one's length."""
    if one.policy == "fixed":
        return f"γ = {max(one.lengths, default=0)}"
    return escape(LENGTH_POLICIES[one.policy].title, quote=False)
