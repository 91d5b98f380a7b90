"""Acceptance by depth, one panel per lane: how soon do the guesses go wrong?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from app.theme import look
from specdec_core.record.trace import Trace
from specdec_measure.sweep.totals import wilson

from .chart import Chart
from .panels import empty, panels, place

TITLE = "How soon do guesses go wrong? A falling line means that later guesses are worse"


def acceptance_by_depth(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """Share of judged positions at each depth where a guess was accepted, with its 95% Wilson interval.
    Lanes without a judged guess have no panel."""
    counts = [depth_counts(trace) for trace in traces]
    drawn = [lane for lane, found in enumerate(counts) if found]
    if not drawn:
        said = "No guess was judged, so there is no acceptance to show."
        return Chart(empty(said), TITLE, provenance, said)
    named = [labels[lane] for lane in drawn]
    figure = panels(named, 150, ("depth of the guess", "accepted"))
    deepest = max(len(counts[lane]) for lane in drawn)
    for panel, lane in enumerate(drawn):
        colour, dash, _, symbol = look(lane)
        shares = [passed / judged for passed, judged in counts[lane]]
        bounds = [wilson(passed, judged) for passed, judged in counts[lane]]
        figure.add_scatter(
            **place(panel, named),
            name=escape(labels[lane], quote=False),
            x=list(range(1, len(shares) + 1)),
            y=shares,
            mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 2},
            marker={"color": colour, "symbol": symbol, "size": 9},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [high - share for share, (_, high) in zip(shares, bounds, strict=True)],
                "arrayminus": [share - low for share, (low, _) in zip(shares, bounds, strict=True)],
                "thickness": 1.5,
                "width": 4,
            },
            customdata=[
                [passed, judged, low, high]
                for (passed, judged), (low, high) in zip(counts[lane], bounds, strict=True)
            ],
            hovertemplate="depth %{x}: %{y:.0%} accepted<br>%{customdata[0]} of %{customdata[1]} judged, "
            "95% interval %{customdata[2]:.0%} to %{customdata[3]:.0%}<extra></extra>",
        )
    figure.update_yaxes(range=[-0.03, 1.05], tickformat=".0%", dtick=0.25)
    figure.update_xaxes(range=[0.5, deepest + 0.5], dtick=max(1, -(-deepest // 8)))
    sentences = " ".join(
        f"{labels[lane]}: "
        + ", ".join(f"{passed / judged:.0%} of {judged}" for passed, judged in counts[lane])
        + "."
        for lane in drawn
    )
    return Chart(
        figure,
        TITLE,
        f"{provenance} · bars: 95% Wilson intervals",
        f"Acceptance by depth, from the first. {sentences}",
    )


def depth_counts(trace: Trace) -> list[tuple[int, int]]:
    """(accepted, judged) for depth 1, 2, …; each position counts once, however many siblings were tried there."""
    passed: Counter[int] = Counter()
    judged: Counter[int] = Counter()
    for row in trace.rounds:
        nodes = list(zip(row.nodes.depth, row.nodes.verdict, strict=True))
        accepted = {depth for depth, verdict in nodes if verdict == "accepted"}
        passed.update(accepted)
        judged.update(accepted | {depth for depth, verdict in nodes if verdict == "rejected"})
    return [(passed[depth], judged[depth]) for depth in sorted(judged)]
