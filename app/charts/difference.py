"""The difference strip: for each token of the text, which lanes had guessed it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from app.metrics.differences import NO_GUESS
from app.metrics.numbers import parting
from app.text import count
from app.theme import CLEAR, GREY, SOURCES
from specdec_core.record.trace import Trace

from .chart import AT_BOTTOM, Chart, lay_out
from .panels import broken, empty

TITLE = "Which tokens did one lane guess and another not? Compare the rows"
ACROSS = 24  # tokens per line
TOKENS_SHOWN = 256  # tokens
ROW = 19  # pixels
PARTED = "≠"  # as in the player
MARKS = {
    **SOURCES,
    "plain": (SOURCES["plain"][0], NO_GUESS, SOURCES["plain"][2]),
    "parted": (GREY, PARTED, "text already differs, not compared"),
}


def difference_strip(traces: Sequence[Trace], labels: Sequence[str], provenance: str) -> Chart:
    """A row of marks per lane, in lines of 24 tokens: accepted guess, corrected, bonus, or not guessed at all.

    Lanes whose text differs from the first one's are compared up to the first different token, and nothing is drawn
    after the last token that any of them shares with it.
    """
    sources = [[source for row in trace.rounds for source in row.committed.source] for trace in traces]
    common = [parting(traces[0], trace) for trace in traces] if traces else []
    ends = [
        min(len(found), TOKENS_SHOWN if at is None else at, TOKENS_SHOWN)
        for found, at in zip(sources, common, strict=True)
    ]
    length = max(ends[1:], default=ends[0] if ends else 0)
    if not length:
        said = "No other lane's text begins like the first lane's, so there is nothing to compare."
        return Chart(empty(said), TITLE, provenance, said)
    marks = [
        [*found[: min(end, length)], *_parted(trace, at, end, length)]
        for trace, found, end, at in zip(traces, sources, ends, common, strict=True)
    ]
    figure = go.Figure()
    for source in MARKS:
        places = [
            (lane, at) for lane, row in enumerate(marks) for at, mark in enumerate(row) if mark == source
        ]
        if places:
            _draw(figure, source, places, traces, labels)
    _rows(figure, length, labels)
    notes = [provenance]
    if any(at is not None for at in common) and length < TOKENS_SHOWN:
        notes.append(
            f"drawn up to token {length}, the last that another lane's text shares with the first lane's"
        )
    if any(len(row) < length for row in marks):
        notes.append("empty: the lane wrote no more tokens")
    return Chart(figure, TITLE, " · ".join(notes), _alt_text(sources, ends, common, labels))


def _parted(trace: Trace, at: int | None, end: int, length: int) -> list[str]:
    """A mark for each further token of a lane whose text has parted from the first one's."""
    return ["parted"] * (min(length, len(trace.token_ids)) - end) if at == end else []


def _draw(
    figure: go.Figure,
    source: str,
    places: Sequence[tuple[int, int]],
    traces: Sequence[Trace],
    labels: Sequence[str],
) -> None:
    """The marks of one kind, at places of a lane and a token, and their entry in the legend."""
    colour, sign, name = MARKS[source]
    block = len(traces) + 1
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


def _rows(figure: go.Figure, length: int, labels: Sequence[str]) -> None:
    """The lanes' names beside the rows, and the tokens' numbers above each line."""
    block, lines = len(labels) + 1, -(-length // ACROSS)
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
    lay_out(
        figure,
        96 + ROW * lines * block,
        {"visible": False, "range": [0, ACROSS + 1]},
        {
            "range": [lines * block - 0.2, -0.7],
            "tickvals": [line * block + lane + 1 for line in range(lines) for lane in range(len(labels))],
            "ticktext": names * lines,
            "tickfont": {"size": 12},
            "showgrid": False,
            "automargin": True,
        },
        legend=AT_BOTTOM,
        margin={"b": 76},
    )


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
