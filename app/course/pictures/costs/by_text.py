"""Tokens per pass of one proposer on several kinds of text, as measured, with a line to compare them with."""

from __future__ import annotations

from html import escape
from string import ascii_uppercase

from pydantic import Field, model_validator

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, style
from app.course.facts.proposers import family_tokens
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured


class With(Strict):
    """A proposer and kinds of text of measurements.json, lettered as in the question; `level` is where the line is."""

    lane: str
    groups: list[str] = Field(min_length=2, max_length=6)
    level: float = Field(1.0, gt=0.0)

    @model_validator(mode="after")
    def there(self) -> With:
        """Whether all of it was measured."""
        for group in self.groups:
            family_tokens(self.lane, group)
        return self


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """A bar for each kind of text."""
    return [style(__file__), Html(bars(given, at.words)), Markdown(measured.source(at.words), "small")]


def bars(given: With, words: Words) -> str:
    """The bars on one scale, each with its letter and number, and a mark for above or below the line."""
    tokens = {group: family_tokens(given.lane, group) for group in given.groups}
    longest = max(given.level, *tokens.values())
    rows = "".join(
        f"<tr><th scope='row'>({letter}) {escape(measured.name('text', group, words))}</th>"
        f"<td><i style='width:{value / longest:.2%}'></i><u style='left:{given.level / longest:.2%}'></u></td>"
        f"<td>{words.number(value, '.2f')} {'▲' if value > given.level else '▼'}</td></tr>"
        for letter, (group, value) in zip(ascii_uppercase, tokens.items(), strict=False)
    )
    said = escape(words("by-text.caption", lane=measured.name("lane", given.lane, words), level=given.level))
    return f"<table class='by-text'><caption>{said}</caption><tbody>{rows}</tbody></table>"
