"""Four ways to choose how much of a drawn block is verified: what each sends, and what that does to the first word."""

from __future__ import annotations

from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, slide, style
from app.course.facts import rules
from app.course.files.lesson import Strict
from app.course.files.words import Words
from specdec_measure.exact.budgets import POLICIES, Policy


class With(Strict):
    """A small vocabulary (`words`) with distributions `p` and `q`: a row after the root, then one after each word.

    `times`: of rounds that send no guess, one, two, …; the last is what the picture starts with, and with `controls`
    the learner chooses among all of them. `policies`: which are shown.
    """

    words: list[str] = Field(min_length=2, max_length=3)
    p: list[list[float]]
    q: list[list[float]]
    times: list[list[float]] = Field(min_length=1, max_length=7)
    policies: list[Policy] = Field(list(POLICIES), min_length=1)
    controls: bool = False

    @model_validator(mode="after")
    def distributions(self) -> With:
        """Whether p and q are distributions over these words, and all times of blocks of one length."""
        rules.check_tables(self.p, self.q)
        if len(self.p[0]) != len(self.words):
            raise ValueError(f"p has {len(self.p[0])} columns for {len(self.words)} words")
        if len({len(each) for each in self.times}) != 1:
            raise ValueError("all times need to be of blocks of one length")
        return self


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """What a pass over the whole block takes."""
    if not given.controls:
        return []
    places = range(len(given.times))
    return [
        slide(
            "times", at.words("budgets.times"), places, len(places) - 1,
            lambda place: at.words.number(given.times[place][-1], ".1f"), help=at.words("budgets.about_times"),
        )
    ]  # fmt: skip


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """A row for each policy."""
    times = given.times[values.get("times", len(given.times) - 1)]
    rows = "".join(row(given, policy, times, at.words) for policy in given.policies)
    heads = "".join(
        f"<th scope='col'>{escape(at.words(f'budgets.{key}', word=given.words[0], target=given.p[0][0]))}</th>"
        for key in ("policy", "sent", "first", "off")
    )
    return [
        style(__file__),
        Html(f"<table class='budgets'><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"),
        Markdown(at.words("budgets.origin"), "small"),
    ]


def row(given: With, policy: Policy, times: list[float], words: Words) -> str:
    """One policy: its name and what it looks at, each block with what is sent of it, the first word, the distance."""
    found = rules.budget_round(policy, given.p, given.q, times)
    sent = rules.budgets_sent(policy, given.p, given.q, times)
    blocks = "".join(
        f"<li aria-label='{escape(_spoken(block, count, given, words), quote=True)}'>"
        + "".join(
            f"<span class='{'sent' if place < count else 'left'}'>{escape(given.words[token])}</span>"
            for place, token in enumerate(block)
        )
        + "</li>"
        for block, count in sent.items()
    )
    wanted, written = given.p[0][0], found.first[0]
    off = found.distance > 1e-9
    mark = "lossy" if off else "lossless"
    number = words.number
    first, distance = (
        escape(words(f"budgets.{key}", word=given.words[0], target=wanted), quote=True)
        for key in ("first", "off")
    )
    return (
        f"<tr class='{mark}'><th scope='row'><b>{escape(words(f'budgets.{policy}'))}</b>"
        f"<span>{escape(words(f'budgets.about_{policy}'))}</span></th>"
        f"<td><ul>{blocks}</ul></td>"
        f"<td class='first' data-of='{first}'>"
        f"<span class='track'><span class='written' style='width:{written:.2%}'></span>"
        f"<span class='wanted' style='width:{wanted:.2%}'></span></span> {number(written, '.2f')}</td>"
        f"<td class='verdict' data-of='{distance}'>{number(found.distance if off else 0.0, '.2f')} "
        f"<b>{escape(words(f'budgets.{mark}'))}</b></td></tr>"
    )


def _spoken(block: tuple[int, ...], count: int, given: With, words: Words) -> str:
    named = " ".join(given.words[token] for token in block)
    return words("budgets.alt", block=named, sent=count, all=len(block))
