"""Guesses at several positions ahead, all rewritten at once: how they settle, and which tokens attend to which.

`jacobi` is the core's own iteration with a scripted target that counts. `mask` is the mask of lookahead's window, as
the core builds it for the target's pass.
"""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Literal

from pydantic import Field

from app.course.drawing import rows
from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, slide, style
from app.course.files.lesson import Strict
from app.course.files.words import Words


class With(Strict):
    """`show`: the rows settling, or the mask. Where there are several `patterns` or `guesses`, one is picked."""

    show: Literal["jacobi", "mask"] = "jacobi"
    patterns: list[rows.Pattern] = Field(["count"], min_length=1, max_length=2)
    guesses: list[rows.Guess] = Field(["wrong"], min_length=1, max_length=3)
    positions: int = Field(5, ge=2, le=8)
    columns: int = Field(5, ge=2, le=8)
    levels: int = Field(2, ge=2, le=4)


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The pattern, the first guesses and the number of passes; or the token whose view the mask is."""
    words = at.words
    if given.show == "mask":
        columns, levels = range(given.columns), range(given.levels)
        return [
            Columns(
                [
                    slide("column", words("window.column"), columns, given.columns - 2),
                    slide("level", words("window.level"), levels, given.levels - 1),
                ]
            )
        ]
    picked = [
        choose(name, words(f"window.{name}"), offered, offered[0], partial(_named, name, words))
        for name, offered in (("pattern", given.patterns), ("guess", given.guesses))
        if len(offered) > 1
    ]
    return [Columns([*picked, slide("passes", words("window.passes"), range(given.positions + 1), 1)])]


def _named(name: str, words: Words, key: str) -> str:
    return words(f"window.{name}-{key}")


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The rows so far, or the mask."""
    words = at.words
    if given.show == "mask":
        shown = mask(values["level"], values["column"], given.columns, given.levels, words)
        return [style(__file__), Html(shown), Markdown(words("window.mask_exact"), "small")]
    passes = values["passes"]
    found = rows.rows(
        values.get("pattern", given.patterns[0]), values.get("guess", given.guesses[0]), given.positions
    )
    parts: list[Part] = [
        style(__file__),
        Html(table(found[: passes + 1], words)),
        Markdown(words("window.exact"), "small"),
    ]
    if passes >= len(found) - 1:
        parts.append(Markdown(words("window.settled", passes=len(found) - 1, positions=given.positions)))
    return parts


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
