"""p and q over three tokens, what they share, and the same number by the rule: two sliders move q.

What both have is Σ min(p, q); half of what differs is the total variation; together they are one. The share of guesses
that the rule keeps is enumerated from its own code, so the picture would show it if the two were not the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Choice, Columns, Html, Part, Place, Values, scale, style
from app.course.facts import coin
from app.course.facts.formulas import acceptance
from app.course.files.lesson import Strict
from app.course.files.words import Words

from .coin import LETTERS, RULE, layer, table

STEP = 0.05


class With(Strict):
    """`p` and the initial `q`: three probabilities each; `still`: q cannot be moved."""

    p: list[float] = Field(min_length=3, max_length=3)
    q: list[float] = Field(min_length=3, max_length=3)
    still: bool = False

    @model_validator(mode="after")
    def distributions(self) -> With:
        """Whether they are distributions."""
        coin.masses(RULE, self.p, self.q)
        return self


@dataclass(frozen=True, slots=True)
class Shared:
    """What two distributions share, how far apart they are, and how often the rule keeps a guess."""

    least: tuple[float, ...]
    overlap: float
    distance: float
    kept: float


def shared(p: Sequence[float], q: Sequence[float]) -> Shared:
    """The three numbers, each computed in its own way."""
    least = tuple(min(one, other) for one, other in zip(p, q, strict=True))
    return Shared(least, acceptance(p, q), coin.distance(p, q), coin.kept_share(RULE, p, q))


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """Two sliders for q: what the first leaves is the most of the second."""
    if given.still:
        return []
    first = _slider(LETTERS[0], given.q[0], 1.0, at)
    second = _slider(LETTERS[1], given.q[1], round(1.0 - first.of(values), 2), at)
    return [Columns([first, second], (1, 1), align="top")]


def _slider(letter: str, start: float, most: float, at: Place) -> Choice:
    return scale(
        f"q-{letter}", at.words("bridge.q", token=letter), 0.0, 1.0, start, STEP, at.words, most=most
    )


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The bars and the sum."""
    q = given.q
    if not given.still:
        first, second = values["q-A"], values["q-B"]
        q = [first, second, round(1.0 - first - second, 2)]
    return [style(__file__, "coin"), Html(bars(given.p, q, at.words))]


def bars(p: Sequence[float], q: Sequence[float], words: Words) -> str:
    """For each token q, p as a frame, and what both have, filled; then the sums."""
    found = shared(p, q)
    top = max(*p, *q)
    plots = "".join(
        f"<td><div class='plot'>{layer('q', 0, mine, top)}{layer('both', 0, least, top)}{layer('p', 0, wanted, top)}"
        "</div></td>"
        for wanted, mine, least in zip(p, q, found.least, strict=True)
    )
    drawn = table(
        plots, [("q", q), ("p", p), ("both", found.least)], words, words("bridge.table"), ["q", "p", "both"]
    )
    said = words("bridge.sums", overlap=found.overlap, distance=found.distance, kept=found.kept)
    share = f"<i style='width:{found.overlap:.2%}'></i>"
    return (
        f"{drawn}<div class='bridge' role='status'><div class='whole' aria-hidden='true'>{share}</div>"
        f"<p>{escape(said)}</p></div>"
    )
