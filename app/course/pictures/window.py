"""Guesses at several positions ahead, all rewritten at once: how they settle, and which tokens attend to which.

`jacobi` is the core's own iteration with a scripted target that counts. `mask` is the mask of lookahead's window, as
the core builds it for the target's pass.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Literal

import streamlit as st
from pydantic import Field

from app.course import rows
from app.course.lesson import Strict
from app.course.words import Words
from app.ui.fragment import fragment

from . import Place


class With(Strict):
    """`show`: the rows settling, or the mask. Where there are several `patterns` or `guesses`, one is picked."""

    show: Literal["jacobi", "mask"] = "jacobi"
    patterns: list[rows.Pattern] = Field(["count"], min_length=1, max_length=2)
    guesses: list[rows.Guess] = Field(["wrong"], min_length=1, max_length=3)
    positions: int = Field(5, ge=2, le=8)
    columns: int = Field(5, ge=2, le=8)
    levels: int = Field(2, ge=2, le=4)


def draw(given: With, at: Place) -> None:
    """The rows or the mask, with their controls."""
    st.html(Path(__file__).with_suffix(".css"))

    @fragment
    def show() -> None:
        (_jacobi if given.show == "jacobi" else _mask)(given, at)

    show()


def _jacobi(given: With, at: Place) -> None:
    words = at.words
    pattern: rows.Pattern = given.patterns[0]
    guess: rows.Guess = given.guesses[0]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        if len(given.patterns) > 1:
            pattern = st.segmented_control(
                words("window.pattern"), given.patterns, default=pattern,
                format_func=lambda key: words(f"window.pattern-{key}"), required=True, key=at.key("pattern"),
            )  # fmt: skip
        if len(given.guesses) > 1:
            guess = st.segmented_control(
                words("window.guess"), given.guesses, default=guess,
                format_func=lambda key: words(f"window.guess-{key}"), required=True, key=at.key("guess"),
            )  # fmt: skip
        found = rows.rows(pattern, guess, given.positions)
        last = len(found) - 1
        passes = st.slider(words("window.passes"), 0, given.positions, 1, key=at.key("passes"))
    st.html(table(found[: passes + 1], words))
    st.caption(words("window.exact"))
    if passes >= last:
        st.markdown(words("window.settled", passes=last, positions=given.positions))


def table(found: tuple[tuple[tuple[int, ...], int], ...], words: Words) -> str:
    """The rows so far as a table: certain places are marked, changed ones as well."""
    size = len(found[0][0])
    head = "".join(f"<th scope='col'>+{at}</th>" for at in range(1, size + 1))
    body = []
    for number, (tokens, certain) in enumerate(found):
        name = words("window.pass", number=number) if number else words("window.begin")
        cells = []
        for at, text in enumerate(rows.names(list(tokens))):
            kind = "certain" if at < certain else "unsure"
            if kind == "unsure" and number and found[number - 1][0][at] != tokens[at]:
                kind = "changed"
            cells.append(
                f"<td class='{kind}'><span class='mark' aria-hidden='true'>{MARKS[kind]}</span>{escape(text)}"
                f"<span class='unseen'> {escape(words(f'window.{kind}'))}</span></td>"
            )
        body.append(f"<tr><th scope='row'>{escape(name)}</th>{''.join(cells)}</tr>")
    key = " · ".join(f"{mark} {words(f'window.{kind}')}" for kind, mark in MARKS.items())
    root = words("window.root", root=rows.START)
    return _boxed(
        f"<table><caption>{escape(root)}</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table><p class='key'>{escape(key)}</p>",
        root,
    )


def _boxed(inner: str, name: str) -> str:
    """A table that scrolls by itself on a narrow screen, also by keyboard."""
    return f"<div class='window-course' tabindex='0' role='group' aria-label='{escape(name, quote=True)}'>{inner}</div>"


MARKS = {"certain": "✓", "changed": "↻", "unsure": "?"}


def _mask(given: With, at: Place) -> None:
    words = at.words
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        column = st.slider(
            words("window.column"), 0, given.columns - 1, given.columns - 2, key=at.key("column")
        )
        level = st.slider(words("window.level"), 0, given.levels - 1, given.levels - 1, key=at.key("level"))
    st.html(mask(level, column, given.columns, given.levels, words))
    st.caption(words("window.mask_exact"))


def mask(level: int, column: int, columns: int, levels: int, words: Words) -> str:
    """The window with everything highlighted that the chosen token may look at."""
    found = rows.seen(level, column, columns, levels)
    body = []
    for row, line in enumerate(found):
        cells = "".join(
            _cell("self" if (row, at) == (level, column) else "seen" if lit else "hidden", row, at, words)
            for at, lit in enumerate(line)
        )
        # A token of level j and column c is c + j positions after the root, so levels are shifted.
        shift = f"<td class='none' colspan='{row}'></td>" if row else ""
        rest = f"<td class='none' colspan='{levels - 1 - row}'></td>" if row < levels - 1 else ""
        mark = "<span class='mark' aria-hidden='true'>●</span>"
        text = f"<td class='seen text'>{mark}{escape(words('window.text'))}</td>"
        body.append(
            f"<tr><th scope='row'>{escape(words('window.row', level=row))}</th>"
            f"{text if row == 0 else '<td class=none></td>'}{shift}{cells}{rest}</tr>"
        )
    head = "".join(
        f"<th scope='col'>{escape(words('window.here') if not at else f'+{at}')}</th>"
        for at in range(columns + levels - 1)
    )
    count = sum(sum(line) for line in found)
    said = words("window.sees", level=level, column=column, count=count, total=columns * levels)
    return _boxed(
        f"<table><caption>{escape(said)}</caption><thead><tr><td></td><td></td>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>",
        said,
    )


def _cell(kind: str, level: int, column: int, words: Words) -> str:
    mark = {"self": "◉", "seen": "●", "hidden": "○"}[kind]
    name = words("window.cell", level=level, column=column)
    return (
        f"<td class='{kind}'><span class='mark' aria-hidden='true'>{mark}</span>{escape(name)}"
        f"<span class='unseen'> {escape(words(f'window.{kind}'))}</span></td>"
    )
