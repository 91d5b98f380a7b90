"""Two words, each logit a sum of a few terms, added forwards and backwards: the order may decide which wins."""

from __future__ import annotations

from html import escape

from pydantic import Field, field_validator

from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, scale, style
from app.course.facts import same_distribution
from app.course.files.lesson import Strict
from app.course.files.words import Words
from specdec_lessons.rounding import FORMATS

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


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The number format, and how far the second word is raised."""
    words, step = at.words, given.most / (STEPS - 1)
    label = words("rounding.raise", word=list(given.logits)[-1])
    return [
        Columns(
            [
                choose("format", words("rounding.format"), given.formats, given.formats[0]),
                scale("raised", label, 0.0, given.most, given.raised, step, words, width=360),
            ]
        )
    ]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """Both orders side by side, and where on the slider they disagree."""
    stored, raised = values["format"], values["raised"]
    panels = "".join(panel(given, stored, raised, backwards, at.words) for backwards in (False, True))
    return [
        style(__file__),
        Html(verdict(given, stored, raised, at.words)),
        Html(f"<div class='rounding'>{panels}</div>"),
        Html(strips(given, stored, raised, at.words)),
        Markdown(at.words("rounding.origin"), "small"),
    ]


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
