"""Prompt lookup on any two texts: what is read, and what the model then writes. Arcs show what was copied from where.

The core's own loop runs with a target that writes the second text word for word, so every match, guess and verdict is
the proposer's own. Each word and each punctuation mark is a token here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from math import cos, pi, sin
from pathlib import Path

import plotly.graph_objects as go
import streamlit as st
from pydantic import Field, field_validator

from app.charts.chart import Chart
from app.course import replay
from app.course.lesson import Strict
from app.course.projector import draw as draw_chart
from app.course.words import Words
from app.theme import BLUE, GREY, ORANGE, faint
from app.ui.fragment import fragment
from specdec_core.record.trace import Trace

from . import Place

MOST = 900  # characters of either text
_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])")
ROUND = 48  # pieces of an arc


class With(Strict):
    """`samples`: texts of lookup.toml; if several, the learner picks one. `own`: both texts can be edited."""

    samples: list[str] = Field(["edit"], min_length=1, max_length=4)
    own: bool = False
    ngram: int = Field(3, ge=1, le=8)
    gamma: int = Field(8, ge=1, le=16)

    @field_validator("samples")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Accept names only, no paths or prose."""
        if strange := [name for name in given if not re.fullmatch(r"[a-z]{1,20}", name)]:
            raise ValueError(f"“{strange[0][:20]}” is not a sample's name; see strings/lookup.toml")
        return given


@dataclass(frozen=True, slots=True)
class Copy:
    """One round with a match: where its guesses were copied from and to (token numbers), how many, how many passed."""

    source: int
    target: int
    matched: int
    guessed: int
    passed: int


@dataclass(frozen=True, slots=True)
class Found:
    """Both texts as pieces, the copies, and the number of passes."""

    read: tuple[str, ...]
    written: tuple[str, ...]
    copies: tuple[Copy, ...]
    passes: int


def draw(given: With, at: Place) -> None:
    """The texts, their copies, and the result."""
    st.html(Path(__file__).with_suffix(".css"))
    words = at.words
    sample_key, read_key, write_key = at.key("sample"), at.key("read"), at.key("write")

    def fill() -> None:
        name = st.session_state.get(sample_key) or given.samples[0]
        st.session_state[read_key] = words(f"lookup.read-{name}")
        st.session_state[write_key] = words(f"lookup.write-{name}")

    @fragment
    def show() -> None:
        if given.own and read_key not in st.session_state:
            fill()
        sample = given.samples[0]
        if len(given.samples) > 1:
            sample = st.segmented_control(
                words("lookup.sample"),
                given.samples,
                default=sample,
                format_func=lambda name: words(f"lookup.name-{name}"),
                required=True,
                key=sample_key,
                on_change=fill if given.own else None,
            )
        texts = words(f"lookup.read-{sample}"), words(f"lookup.write-{sample}")
        if given.own:
            first, second = st.columns(2)
            texts = (
                first.text_area(words("lookup.read"), max_chars=MOST, height=150, key=read_key),
                second.text_area(words("lookup.write"), max_chars=MOST, height=150, key=write_key),
            )
        if not pieces(texts[0]) or not pieces(texts[1]):
            st.info(words("lookup.empty"), icon=":material/edit:")
            return
        found = run(texts[0][:MOST], texts[1][:MOST], given.ngram, given.gamma)
        st.markdown(summary(found, words))
        exact = words("lookup.exact", ngram=given.ngram, gamma=given.gamma)
        draw_chart(arcs(found, words, exact), at.key("arcs"), words)
        st.html(shown(found, words))

    show()


def pieces(text: str) -> tuple[str, ...]:
    """A text as words and punctuation, each with the space before it."""
    return tuple(_PIECE.findall(text))


def run(read: str, write: str, ngram: int, gamma: int) -> Found:
    """Run the core's prompt lookup with a target that writes the second text."""
    first, second = pieces(read), pieces(write)
    ids: dict[str, int] = {}
    tokens = [ids.setdefault(piece.strip(), len(ids)) for piece in (*first, *second)]
    trace = replay.written(
        tuple(tokens[: len(first)]), tuple(tokens[len(first) :]), "prompt-lookup", gamma, max_ngram=ngram
    )
    return Found(first, second, copies(trace, len(first)), trace.stats.target_passes)


def copies(trace: Trace, begin: int) -> tuple[Copy, ...]:
    """The rounds that found a match; `begin` is the number of the first written token."""
    found, at = [], begin
    for row in trace.rounds:
        start, matched = row.note.get("match_start"), row.note.get("match_length")
        if isinstance(start, int) and isinstance(matched, int) and row.nodes.token:
            passed = sum(verdict == "accepted" for verdict in row.nodes.verdict)
            found.append(Copy(start + matched, at, matched, len(row.nodes.token), passed))
        at += len(row.committed.token)
    return tuple(found)


def summary(found: Found, words: Words) -> str:
    """The result in words."""
    copied = sum(copy.passed for copy in found.copies)
    wrong = sum(copy.guessed - copy.passed for copy in found.copies)
    return words(
        "lookup.summary", tokens=len(found.written), passes=found.passes, tau=len(found.written) / found.passes,
        copied=copied, wrong=wrong, searched=len(found.copies),
    )  # fmt: skip


def shown(found: Found, words: Words) -> str:
    """Both texts with the copies marked and numbered like the arcs."""
    source: dict[int, int] = {}
    target: dict[int, int] = {}
    for number, copy in enumerate(passed(found), 1):
        for step in range(copy.passed):
            target[copy.target + step] = number
            source.setdefault(copy.source + step, number)
    begin = len(found.read)
    texts = _marked(found.read, 0, source, "from") + _marked(found.written, begin, target, "copied")
    return f"<div class='lookup'><div class='texts'>{texts}</div><p class='key'>{escape(words('lookup.key'))}</p></div>"


def passed(found: Found) -> list[Copy]:
    """The copies with at least one accepted token, in order."""
    return [copy for copy in found.copies if copy.passed]


def arcs(found: Found, words: Words, exact: str) -> Chart:
    """An arc for each copy, from its source to its destination; wasted ones are dashed."""
    begin, total = len(found.read), len(found.read) + len(found.written)
    hits = passed(found)
    figure = go.Figure()
    for copy in found.copies:
        hit = copy.passed > 0
        first, last = copy.source + copy.passed / 2, copy.target + copy.passed / 2
        along = [at / ROUND for at in range(ROUND + 1)]
        figure.add_scatter(
            x=[first + (last - first) * (1 - cos(pi * at)) / 2 for at in along],
            y=[(last - first) * sin(pi * at) for at in along],
            mode="lines",
            line={
                "color": BLUE if hit else ORANGE, "width": max(3.0, 2.5 * copy.passed) if hit else 1.5,
                "dash": "solid" if hit else "dash",
            },
            opacity=0.55 if hit else 0.9,
            hovertemplate=words("lookup.arc", passed=copy.passed, guessed=copy.guessed) + "<extra></extra>",
            showlegend=False,
        )  # fmt: skip
    for start, end, key, share in ((0, begin, "read", 0.45), (begin, total, "write", 0.2)):
        figure.add_shape(
            type="rect", x0=start, x1=end, y0=-0.075 * total, y1=0, line={"width": 0},
            fillcolor=faint(GREY, share),
        )  # fmt: skip
        figure.add_annotation(
            x=(start + end) / 2, y=-0.075 * total, text=words(f"lookup.{key}"), showarrow=False, yanchor="top",
            font={"size": 13},
        )  # fmt: skip
    for number, copy in enumerate(hits, 1):
        for end in (copy.source, copy.target):
            figure.add_annotation(
                x=end + copy.passed / 2,
                y=-0.0375 * total,
                text=f"<b>{number}</b>",
                showarrow=False,
                font={"size": 13},
            )
    tallest = max([copy.target - copy.source for copy in found.copies], default=1)
    figure.update_layout(
        height=230,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode=False,
        hovermode="closest",
        xaxis={"visible": False, "range": [0, total]},
        yaxis={"visible": False, "range": [-0.2 * total, 1.2 * max(tallest, 0.5 * total)]},
    )
    alt = words("lookup.arcs", hits=len(hits), misses=len(found.copies) - len(hits))
    return Chart(figure, words("lookup.title"), exact, alt)


def _marked(texts: tuple[str, ...], begin: int, numbers: dict[int, int], kind: str) -> str:
    """A text with the copied stretches marked and numbered."""
    out, now = [], 0
    for at, text in enumerate(texts):
        number = numbers.get(begin + at, 0)
        if number != now:
            out.append("</mark>" if now else "")
            space = text[: len(text) - len(text.lstrip())]
            out.append(escape(space))
            out.append(f"<mark class='{kind}'><sup>{number}</sup>" if number else "")
            text, now = text.lstrip(), number
        out.append(escape(text))
    out.append("</mark>" if now else "")
    return f"<p class='text {kind}' translate='no'>{''.join(out)}</p>"
