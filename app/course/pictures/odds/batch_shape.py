"""The same sums, computed on this machine alone and in a pass over several positions: which results differ?"""

from __future__ import annotations

from functools import lru_cache
from html import escape

from pydantic import Field

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, style
from app.course.files.lesson import Strict
from app.course.files.words import Words
from specdec_lessons.rounding import alone_and_among


class With(Strict):
    """`sums` of `terms` terms each, computed for one position, and among `rows` positions."""

    sums: int = Field(100, ge=10, le=200)
    terms: int = Field(512, ge=2, le=4096)
    rows: int = Field(6, ge=2, le=64)


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """A cell for each sum, and one of them with all its digits."""
    return [
        style(__file__),
        Html(picture(given, measured(given.sums, given.terms, given.rows), at.words)),
        Markdown(at.words("batch_shape.origin", terms=given.terms), "small"),
    ]


@lru_cache(maxsize=8)
def measured(sums: int, terms: int, rows: int) -> tuple[tuple[float, float], ...]:
    """Each sum alone and among others, as this machine computes them."""
    return tuple(alone_and_among(sums, terms, rows))


def picture(given: With, pairs: tuple[tuple[float, float], ...], words: Words) -> str:
    """The cells: a ≠ sign where the two differ."""
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    cells = "".join(
        f"<span class='{'differs' if one != other else 'same'}'>{'≠' if one != other else '='}</span>"
        for one, other in pairs
    )
    summary = words("batch_shape.summary", differing=len(differing), sums=len(pairs), rows=given.rows)
    parts = [
        f"<p>{escape(summary)}</p><div role='img' aria-label='{escape(summary, quote=True)}'>{cells}</div>"
    ]
    if differing:
        one, other = max(differing, key=lambda pair: abs(pair[0] - pair[1]))
        shown = words("batch_shape.widest", alone=words.number(one, ".9g"), among=words.number(other, ".9g"))
        parts.append(f"<p>{escape(shown)}</p>")
    else:
        parts.append(f"<p>{escape(words('batch_shape.none'))}</p>")
    return f"<div class='batch-shape'>{''.join(parts)}</div>"
