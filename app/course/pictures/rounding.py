"""Two words, each logit a sum of a few terms, added forwards and backwards: the order may decide which wins."""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st
from pydantic import Field, field_validator

from app.course.facts import same_distribution
from app.course.lesson import Strict
from app.course.scale import scale
from app.course.words import Words
from app.ui.fragment import fragment
from specdec_lessons.rounding import FORMATS

from . import Place

STEPS = 31
DIGITS = ".7g"  # enough to distinguish a stored number from its neighbours


class With(Strict):
    """`logits`: two words, each with the terms of its logit; `formats`: names of number formats; `most`: how far the
    learner can raise the second word."""

    logits: dict[str, list[float]]
    formats: list[str] = Field(min_length=1, max_length=3)
    raised: float = 0.0
    most: float = Field(0.3, gt=0.0, le=10.0)

    @field_validator("logits")
    @classmethod
    def two(cls, given: dict[str, list[float]]) -> dict[str, list[float]]:
        """Whether there are two words with the same number of terms."""
        lengths = {len(terms) for terms in given.values()}
        if len(given) != 2 or len(lengths) != 1 or not 2 <= min(lengths) <= 5:
            raise ValueError("`logits` needs two words, each with as many terms, two to five")
        return given

    @field_validator("formats")
    @classmethod
    def known(cls, given: list[str]) -> list[str]:
        """Whether the formats exist."""
        if strange := [name for name in given if name not in FORMATS]:
            raise ValueError(f"there is no number format “{strange[0]}”; there are {', '.join(FORMATS)}")
        return given


def draw(given: With, at: Place) -> None:
    """Draw both orders side by side, and where on the slider they disagree."""

    @fragment
    def show() -> None:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            stored = st.segmented_control(
                at.words("rounding.format"),
                given.formats,
                default=given.formats[0],
                required=True,
                key=at.key("format"),
            )
            raised = scale(
                at.words("rounding.raise", word=list(given.logits)[-1]),
                0.0,
                given.most,
                given.raised,
                given.most / (STEPS - 1),
                at.words,
                at.key("raised"),
                width=360,
            )
        st.html(verdict(given, stored, raised, at.words))
        panels = "".join(panel(given, stored, raised, backwards, at.words) for backwards in (False, True))
        st.html(f"<div class='rounding'>{panels}</div>")
        st.html(strips(given, stored, raised, at.words))
        st.caption(at.words("rounding.origin"))

    st.html(Path(__file__).with_suffix(".css"))
    show()


def verdict(given: With, stored: str, raised: float, words: Words) -> str:
    """Whether the two orders take the same word, in a sentence."""
    names = list(given.logits)
    forth, back = (
        names[same_distribution.winner(given.logits, stored, raised, way)] for way in (False, True)
    )
    exact = [sum(terms) for terms in given.logits.values()]
    gap = exact[0] - exact[1] - raised
    flipped = forth != back
    sentence = words("rounding.flip" if flipped else "rounding.same", forth=forth, back=back)
    close = words(
        "rounding.gap", gap=words.number(abs(gap), ".2f"), word=names[0] if gap > 1e-9 else names[1]
    )
    tie = words("rounding.tie_exact")
    return (
        f"<p class='rounding-said{' flip' if flipped else ''}' role='status'><b>{'⇄' if flipped else '='} "
        f"{escape(sentence)}</b> {escape(tie if abs(gap) < 1e-9 else close)}</p>"
    )


def panel(given: With, stored: str, raised: float, backwards: bool, words: Words) -> str:
    """One order: every word's sum after each term, and the winner."""
    sums = same_distribution.added(given.logits, stored, raised, backwards)
    best = same_distribution.winner(given.logits, stored, raised, backwards)
    tie = sums[0][-1] == sums[1][-1]
    rows = []
    for at, (name, terms) in enumerate(given.logits.items()):
        shown = [*terms[:-1], terms[-1] + raised] if at else list(terms)
        order = shown[::-1] if backwards else shown
        chain = "".join(
            f"<td>{'+ ' if place else ''}{words.number(term, '.2f')}<small>= {words.number(total, DIGITS)}</small></td>"
            for place, (term, total) in enumerate(zip(order, sums[at], strict=True))
        )
        mark = "✓" if at == best else ""
        rows.append(
            f"<tr class='{'best' if at == best else ''}' translate='no'>"
            f"<th scope='row'>{escape(name)} {mark}</th>{chain}</tr>"
        )
    sentence = words("rounding.tie" if tie else "rounding.wins", word=list(given.logits)[best])
    head = words("rounding.backwards" if backwards else "rounding.forwards")
    return (
        f"<table><caption>{escape(head)}</caption><tbody>{''.join(rows)}</tbody>"
        f"<tfoot><tr><td colspan={len(sums[0]) + 1}>{escape(sentence)}</td></tr></tfoot></table>"
    )


def strips(given: With, stored: str, raised: float, words: Words) -> str:
    """For each format where on the slider the two orders take different words."""
    rows = []
    for name in given.formats:
        flips = [
            same_distribution.flips(given.logits, name, step * given.most / (STEPS - 1))
            for step in range(STEPS)
        ]
        here = round(raised / given.most * (STEPS - 1))
        cells = "".join(
            f"<span class='{'flip' if flip else 'same'}{' here' if name == stored and step == here else ''}'>"
            f"{'⇄' if flip else ''}</span>"
            for step, flip in enumerate(flips)
        )
        sentence = words("rounding.strip_alt", name=name, flips=sum(flips), steps=STEPS)
        rows.append(
            f"<div class='strip'><b translate='no'>{escape(name)}</b>"
            f"<div role='img' aria-label='{escape(sentence, quote=True)}'>{cells}</div></div>"
        )
    return f"<div class='rounding-strips'><p>{escape(words('rounding.strips'))}</p>{''.join(rows)}</div>"
