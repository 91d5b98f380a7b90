"""Kinds of text against proposers, as measured: losses against plain decoding are as visible as wins."""

from __future__ import annotations

from html import escape
from pathlib import Path

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, choose, style
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured
from app.course.live.measured import KindFigures
from specdec_measure.sweep.totals import mark

SHOWN = ("speedup", "worst", "tau", "alpha")
CSS = Path(__file__).with_suffix(".css")


class With(Strict):
    """Without parameters: every measurement is shown."""


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The figure that the table shows."""
    words = at.words
    named = lambda name: words(f"fails-matrix.{name}")  # noqa: E731
    return [choose("shown", words("fails-matrix.shown"), SHOWN, "speedup", named)]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The table."""
    shown = values["shown"]
    about = f"{at.words(f'fails-matrix.about_{shown}')} {measured.source(at.words)}"
    return [style(__file__), Html(table(shown, at.words)), Markdown(about, "small")]


def table(shown: str, words: Words) -> str:
    """The table as HTML: one row for each kind of text, one column for each proposer."""
    found = measured.figures()
    head = "".join(
        f"<th scope='col'>{escape(measured.name('lane', lane, words))}</th>" for lane in found.lanes
    )
    rows = []
    for group, cells in found.cells.items():
        name = escape(measured.name("text", group, words))
        body = "".join(
            _cell(cells.get(lane), shown, measured.name("lane", lane, words), words) for lane in found.lanes
        )
        rows.append(f"<tr role='row'><th scope='row' role='rowheader'>{name}</th>{body}</tr>")
    label = escape(words(f"fails-matrix.{shown}"), quote=True)
    return (
        f"<p class='fails-title'>{escape(words(f'fails-matrix.title_{shown}'))}</p>"
        f"<div class='fails' role='region' tabindex='0' aria-label='{label}'><table role='table'>"
        f"<thead><tr><th scope='col'>{escape(words('fails-matrix.text'))}</th>{head}</tr></thead>"
        f"<tbody role='rowgroup'>{''.join(rows)}</tbody></table></div>"
    )


def _cell(cell: KindFigures | None, shown: str, lane: str, words: Words) -> str:
    # On a phone the style sheet makes blocks of the table: the roles remain, and each cell shows its lane's name.
    of = f"role='cell' data-lane='{escape(lane, quote=True)}'"
    value = None if cell is None else getattr(cell, shown)
    if cell is None or value is None:
        said = escape(words("fails-matrix.none"), quote=True)
        return f"<td class='none' {of} title='{said}'>–</td>"
    if shown == "tau":
        return f"<td {of}>{words.number(value, '.2f')}</td>"
    if shown == "alpha":
        return f"<td {of}>{words.number(value, '.0%')}</td>"
    sign = mark(value)
    kind = {"▲": "faster", "▼": "slower"}.get(sign, "same")
    range_ = escape(
        words("fails-matrix.range", low=cell.worst, high=cell.best, prompts=cell.prompts), quote=True
    )
    shown_ = f"<span aria-hidden='true'>{sign}</span> {words.number(value, '.2f')}×"
    return f"<td class='{kind}' {of} title='{range_}'>{shown_}</td>"
