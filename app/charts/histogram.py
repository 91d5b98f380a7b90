"""Tokens per target pass, one panel per lane: is the mean made of many small rounds or of a few large ones?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from app.text import count
from app.theme import GREY, fill, look
from specdec_core.record.trace import Trace

from .chart import Chart
from .panels import empty, panels, place

TITLE = "How many tokens does one target pass yield? Plain decoding always gets one"


def tokens_per_pass(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """The share of rounds that committed 1, 2, … tokens, and the mean τ as a line. Plain lanes have no panel."""
    drawn = [
        lane
        for lane, trace in enumerate(traces)
        if trace.rounds and trace.header.settings.get("proposer") != "none"
    ]
    if not drawn:
        said = "No round with guesses was recorded, so there is nothing to count."
        return Chart(empty(said), TITLE, provenance, said)
    named = [labels[lane] for lane in drawn]
    figure = panels(named, 150, ("tokens committed by one round", "share of rounds"), more=1)
    counts = {lane: Counter(len(row.committed.token) for row in traces[lane].rounds) for lane in drawn}
    most = max(max(found) for found in counts.values())
    sentences = []
    for panel, lane in enumerate(drawn):
        colour, _, pattern, _ = look(lane)
        rounds = counts[lane].total()
        sizes = list(range(1, most + 1))
        tau = sum(size * times for size, times in counts[lane].items()) / rounds
        figure.add_bar(
            **place(panel, named),
            name=escape(labels[lane], quote=False),
            x=sizes,
            y=[counts[lane][size] / rounds for size in sizes],
            customdata=[[counts[lane][size], rounds] for size in sizes],
            marker=fill(colour, pattern),
            hovertemplate="tokens: %{x}, in %{y:.0%} of rounds<br>%{customdata[0]} of %{customdata[1]}<extra></extra>",
        )
        figure.add_vline(
            **place(panel, named),
            x=tau,
            line={"width": 2, "dash": "dot", "color": GREY},
        )
        figure.layout.annotations[panel].text += f"<br>τ = {tau:.2f}"
        shares = ", ".join(
            f"{size} in {counts[lane][size] / rounds:.0%}" for size in sizes if counts[lane][size]
        )
        sentences.append(f"{labels[lane]}: {tau:.2f} on average over {count(rounds, 'round')}; {shares}.")
    figure.update_yaxes(rangemode="tozero", tickformat=".0%")
    figure.update_xaxes(range=[0.4, most + 0.6], dtick=max(1, -(-most // 8)))
    figure.update_layout(bargap=0.15)
    return Chart(
        figure,
        TITLE,
        f"{provenance} · dotted line: the mean, τ",
        "Tokens per target pass. " + " ".join(sentences),
    )
