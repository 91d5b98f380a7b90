"""A rule, right or wrong, run once or ten thousand times, next to its exact distribution and the right one."""

from __future__ import annotations

from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Button, Columns, Html, Markdown, Part, Place, Values, choose, style
from app.course.facts import coin
from app.course.files.lesson import Strict
from app.course.files.words import Words

from .coin import __file__ as bars_file
from .coin import bars

TRIALS = (1, 100, 10_000)
EXACT = 1e-9  # a smaller distance is rounding error


class With(Strict):
    """`p` and `q` as in the picture `coin`; `rules`: names of rules of the core or of wrong ones in its gallery."""

    p: list[float] = Field(min_length=2, max_length=6)
    q: list[float] = Field(min_length=2, max_length=6)
    rules: list[str] = Field(min_length=1, max_length=6)

    @model_validator(mode="after")
    def there(self) -> With:
        """Whether each rule exists and can judge these distributions."""
        for rule in self.rules:
            coin.masses(rule, self.p, self.q)
        return self


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The rule, the number of trials, and a button for new random numbers."""
    words = at.words
    again = {"seed": values.get("seed", 0) + 1}
    return [
        choose(
            "rule", words("trials.rule"), given.rules, given.rules[0], lambda name: words(f"trials.{name}")
        ),
        Columns(
            [
                choose("count", words("trials.count"), TRIALS, TRIALS[0], words.whole),
                Button("again", words("trials.again"), again, "casino"),
            ],
            gap="small",
        ),
    ]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The bars, with what the trials say of the rule."""
    rule, count, seed = values["rule"], values["count"], values.get("seed", 0)
    found = coin.masses(rule, given.p, given.q)
    shares, accepted = coin.tried(rule, tuple(given.p), tuple(given.q), count, seed)
    return [
        style(bars_file),
        Html(said(given, rule, count, shares, sum(accepted), at.words)),
        Html(bars(given.p, given.q, found, at.words, trials=shares)),
        Markdown(at.words("trials.origin", seed=seed), "small"),
    ]


def said(given: With, rule: str, count: int, shares: tuple[float, ...], accepted: int, words: Words) -> str:
    """The rule's verdict in numbers: the distance of its text from p, and how much it keeps."""
    off = coin.off_target(rule, given.p, given.q)
    exact = words("trials.lossless") if off < EXACT else words("trials.lossy", off=words.number(off, ".2f"))
    kept = words(
        "trials.kept",
        share=words.number(coin.kept_share(rule, given.p, given.q), ".0%"),
        count=words.whole(count),
        accepted=words.whole(accepted),
    )
    tried = words("trials.distance", off=words.number(coin.distance(shares, given.p), ".3f"))
    return (
        f"<p class='trials-said' role='status'><b>{'✓' if off < EXACT else '✗'} {escape(exact)}</b> "
        f"{escape(tried)} {escape(kept)}</p>"
    )
