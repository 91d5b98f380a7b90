"""A hundred rounds in which draft and target consider the same words equally likely, under two or three rules."""

from __future__ import annotations

from html import escape

from pydantic import Field, field_validator

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, style
from app.course.facts import coin
from app.course.files.lesson import Strict
from app.course.files.words import Words

ROUNDS = 100


class With(Strict):
    """`tokens`: how many, all equally likely for both models; `rules` by name; `seed` of the rounds."""

    tokens: int = Field(ge=2, le=200)
    rules: list[str] = Field(min_length=1, max_length=3)
    seed: int = Field(0, ge=0)

    @field_validator("rules")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Whether each rule exists."""
        for rule in given:
            coin.rule_named(rule)
        return given


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """A panel of a hundred cells for each rule."""
    panels = "".join(panel(given, rule, at.words) for rule in given.rules)
    return [
        style(__file__),
        Html(f"<div class='hundred'>{panels}</div>"),
        Markdown(at.words("hundred.origin", seed=given.seed, rounds=ROUNDS), "small"),
    ]


def panel(given: With, rule: str, words: Words) -> str:
    """One rule: its exact share of kept guesses, and the rounds that kept theirs."""
    probs = tuple(coin.uniform(given.tokens))
    _, accepted = coin.tried(rule, probs, probs, ROUNDS, given.seed)
    share = coin.kept_share(rule, probs, probs)
    cells = "".join(
        f"<span class='{'yes' if kept else 'no'}'>{'✓' if kept else '·'}</span>" for kept in accepted
    )
    alt = words("hundred.alt", kept=sum(accepted), rounds=ROUNDS)
    said = words("hundred.share", share=words.number(share, ".0%"), kept=sum(accepted), rounds=ROUNDS)
    return (
        f"<figure><figcaption><b>{escape(words(f'hundred.{rule}'))}</b> "
        f"{escape(said)}</figcaption>"
        f"<div role='img' aria-label='{escape(alt, quote=True)}'>{cells}</div></figure>"
    )
