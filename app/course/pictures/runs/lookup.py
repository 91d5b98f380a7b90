"""Prompt lookup on any two texts: what is read, and what the model then writes. Arcs show what was copied from where.

The core's own loop runs with a target that writes the second text word for word, so every match, guess and verdict is
the proposer's own. Each word and each punctuation mark is a token here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from math import cos, pi, sin

import plotly.graph_objects as go
from pydantic import Field, field_validator

from app.charts.chart import Chart, lay_out
from app.course.drawing.scene import (
    Area,
    Columns,
    Html,
    Markdown,
    Notice,
    Part,
    Place,
    Values,
    choose,
    style,
)
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import replay
from app.theme import BLUE, GREY, ORANGE, faint
from specdec_core.record.trace import Trace

MAX_CHARS = 900  # characters of either text
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


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The choice of a sample, and both texts where they can be edited."""
    words, parts, sample = at.words, [], given.samples[0]
    if len(given.samples) > 1:
        offered = choose(
            "sample", words("lookup.sample"), given.samples, sample, lambda name: words(f"lookup.name-{name}"),
            resets=["read", "write"],
        )  # fmt: skip
        parts, sample = [offered], offered.of(values)
    if not given.own:
        return [*parts]
    texts = [
        Area(name, words(f"lookup.{name}"), words(f"lookup.{name}-{sample}"), MAX_CHARS, 150)
        for name in ("read", "write")
    ]
    return [*parts, Columns(texts, (1, 1), gap="small", align="top")]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The copies and what they saved."""
    words, sample = at.words, values.get("sample", given.samples[0])
    read, write = (values.get(name) or "" for name in ("read", "write"))
    if not given.own:
        read, write = words(f"lookup.read-{sample}"), words(f"lookup.write-{sample}")
    if not pieces(read) or not pieces(write):
        return [style(__file__), Notice("info", words("lookup.empty"), "edit")]
    found = run(read[:MAX_CHARS], write[:MAX_CHARS], given.ngram, given.gamma)
    exact = words("lookup.exact", ngram=given.ngram, gamma=given.gamma)
    return [
        style(__file__),
        Markdown(summary(found, words)),
        arcs(found, words, exact),
        Html(shown(found, words)),
    ]


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
    lay_out(
        figure,
        230,
        {"visible": False, "range": [0, total]},
        {"visible": False, "range": [-0.2 * total, 1.2 * max(tallest, 0.5 * total)]},
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
