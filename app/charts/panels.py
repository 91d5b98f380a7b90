"""Small multiples: one panel per lane, at most two side by side so that they stay legible on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

import plotly.graph_objects as go
from plotly.subplots import make_subplots

TITLE = 13  # pixels
LINE_LENGTH = 46  # characters of a line that fits a phone
WORD = 14  # characters of a word that is not broken
LINE = 17  # pixels of a title's line
ZERO_WIDTH = "\u200b"
TICKS = 34  # pixels for the ticks below a panel, and the air between them and the next title


def broken(label: str, width: int = 22, lines: int = 2) -> str:
    """A label as figure text: escaped, in at most `lines` lines of about `width` characters; usual words stay whole."""
    text = label.replace(" = ", "\u00a0=\u00a0")
    width = max(width, min(WORD, max(map(len, text.split(" ")))))
    parts = wrap(text, width) or [""]
    if len(parts) > lines:
        parts = [*parts[: lines - 1], " ".join(parts[lines - 1 :])[: width - 1].rstrip() + "…"]
    return "<br>".join(escape(part, quote=False) for part in parts)


def distinct(labels: Sequence[str], width: int) -> list[str]:
    """The labels broken into at most three lines, no two alike: bars of one name would be one bar."""
    names = [broken(label, width, 3) for label in labels]
    return [name + ZERO_WIDTH * names[:at].count(name) for at, name in enumerate(names)]


def panels(
    labels: Sequence[str], height: int, titles: tuple[str, str], more: int = 0, below: int = 52
) -> go.Figure:
    """A figure with one empty panel per label, all on the same scales; `titles` are those of the x and y axes.

    The n-th trace goes into panel `place(n)`.

    Args:
        height: of a panel without its title.
        more: how many lines the caller adds to each panel's title; there is room for them.
        below: pixels below the last panels.
    """
    across = min(2, max(1, len(labels)))
    down = -(-max(1, len(labels)) // across)
    lines = more + max((broken(label).count("<br>") + 1 for label in labels), default=1)
    above = LINE * lines + 6
    drawn = down * height + (down - 1) * (TICKS + above)
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_yaxes="all",
        subplot_titles=[broken(label) for label in labels] or None,
        horizontal_spacing=0.07,
        vertical_spacing=(TICKS + above) / drawn if down > 1 else 0,
        x_title=titles[0],
    )
    for words in figure.layout.annotations:
        words.font = {"size": TITLE}
        if words.text != titles[0]:
            words.yanchor = "bottom"
    figure.update_yaxes(title=titles[1], col=1)
    figure.update_yaxes(showticklabels=False, col=2)
    figure.update_layout(
        height=above + drawn + below,
        margin={"l": 8, "r": 8, "t": above, "b": below},
        showlegend=False,
        hovermode="closest",
        dragmode=False,
    )
    return figure


def place(panel: int, labels: Sequence[str]) -> dict[str, int]:
    """Plotly's row and column of panel number `panel`."""
    across = min(2, max(1, len(labels)))
    return {"row": panel // across + 1, "col": panel % across + 1}


def empty(words: str, height: int = 120) -> go.Figure:
    """A figure that says why there is nothing to draw."""
    figure = go.Figure()
    figure.add_annotation(
        text="<br>".join(escape(part, quote=False) for part in wrap(words, LINE_LENGTH)),
        showarrow=False,
        font={"size": 14},
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
    )
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis={"visible": False},
        yaxis={"visible": False},
    )
    return figure
