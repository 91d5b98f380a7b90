"""The difference strip: for each token of the text, which lanes had guessed it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from app.metrics.numbers import parting
from app.text import count
from app.theme import CLEAR, SOURCES
from specdec_core.record.trace import Trace

from .chart import Chart
from .panels import broken, empty

TITLE = "Which tokens did one lane guess and another not? Compare the rows"
ACROSS = 24  # tokens per line
MOST = 256  # tokens
ROW = 19  # pixels


def difference_strip(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """A row of marks per lane, in lines of 24 tokens: accepted guess, corrected, bonus, or not guessed at all.

    Lanes whose text differs from the first one's are drawn up to the first different token.
    """
    sources = [[source for row in trace.rounds for source in row.committed.source] for trace in traces]
    common = [parting(traces[0], trace) for trace in traces] if traces else []
    ends = [
        min(len(found), MOST if at is None else at, MOST) for found, at in zip(sources, common, strict=True)
    ]
    length = max(ends, default=0)
    if not length:
        said = "The lanes share no recorded token, so there is nothing to compare."
        return Chart(empty(said), TITLE, provenance, said)
    block = len(traces) + 1
    figure = go.Figure()
    for source, (colour, sign, name) in SOURCES.items():
        places = [
            (lane, at)
            for lane, found in enumerate(sources)
            for at in range(ends[lane])
            if found[at] == source
        ]
        if not places:
            continue
        drawn = f'<span style="color:{colour}">{sign}</span>'  # draw.py sets the text's own colour
        figure.add_scatter(
            name=name,
            x=[at % ACROSS + 1 for _, at in places],
            y=[at // ACROSS * block + lane + 1 for lane, at in places],
            mode="text",
            text=drawn,
            textfont={"size": 13},
            showlegend=False,
            legendgroup=source,
            customdata=[
                [
                    at + 1,
                    escape(labels[lane], quote=False),
                    escape(repr(traces[lane].output.texts[at])[1:-1], quote=False),
                ]
                for lane, at in places
            ],
            hovertemplate="token %{customdata[0]}: “%{customdata[2]}”<br>"
            + name
            + "<extra>%{customdata[1]}</extra>",
        )
        # Plotly's legend would show sample text in place of the sign.
        figure.add_scatter(
            name=f"{drawn} {name}",
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": CLEAR},
            legendgroup=source,
        )
    lines = -(-length // ACROSS)
    for line in range(lines):
        last = min(length, (line + 1) * ACROSS)
        figure.add_annotation(
            x=0.5,
            y=line * block,
            text=f"tokens {line * ACROSS + 1} to {last}",
            showarrow=False,
            xanchor="left",
            font={"size": 12},
        )
    names = [broken(label, 18, 1) for label in _short(labels)]
    figure.update_layout(
        height=96 + ROW * lines * block,
        margin={"l": 8, "r": 8, "t": 8, "b": 76},
        legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "title": ""},
        xaxis={"visible": False, "range": [0, ACROSS + 1]},
        yaxis={
            "range": [lines * block - 0.2, -0.7],
            "tickvals": [line * block + lane + 1 for line in range(lines) for lane in range(len(traces))],
            "ticktext": names * lines,
            "tickfont": {"size": 12},
            "showgrid": False,
            "zeroline": False,
            "automargin": True,
        },
        hovermode="closest",
        dragmode=False,
    )
    return Chart(figure, TITLE, provenance, _alt_text(sources, ends, common, labels))


def _short(labels: Sequence[str]) -> Sequence[str]:
    """The labels cut at their first comma, where they stay distinct."""
    heads = [label.split(",")[0] for label in labels]
    return heads if len(set(heads)) == len(heads) else labels


def _alt_text(
    sources: Sequence[Sequence[str]], ends: list[int], common: list[int | None], labels: Sequence[str]
) -> str:
    said = []
    for lane, label in enumerate(labels):
        guessed = sources[lane][: ends[lane]].count("accepted")
        alone = [
            at
            for at in range(ends[lane])
            if sources[lane][at] == "accepted"
            and not any(
                at < ends[other] and sources[other][at] == "accepted"
                for other in range(len(labels))
                if other != lane
            )
        ]
        sentence = f"{label}: {guessed} of {count(ends[lane], 'token')} were accepted guesses, {len(alone)} only here"
        if common[lane] is not None:
            sentence += f"; from token {(common[lane] or 0) + 1} on, its text differs"
        said.append(sentence + ".")
    return "Which lane had guessed which token. " + " ".join(said)
