"""A rule, right or wrong, run once or ten thousand times, next to its exact distribution and the right one."""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st
from pydantic import Field, model_validator

from app.course.facts import coin
from app.course.lesson import Strict
from app.course.words import Words
from app.ui.fragment import fragment

from . import Place
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


def draw(given: With, at: Place) -> None:
    """Draw the bars below the choice of the rule and the number of trials, and a button for new random numbers."""

    @fragment
    def show() -> None:
        rule = st.segmented_control(
            at.words("trials.rule"),
            given.rules,
            default=given.rules[0],
            format_func=lambda name: at.words(f"trials.{name}"),
            required=True,
            key=at.key("rule"),
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            count = st.segmented_control(
                at.words("trials.count"),
                TRIALS,
                default=TRIALS[0],
                format_func=at.words.whole,
                required=True,
                key=at.key("count"),
            )
            seed = st.session_state.setdefault(at.key("seed"), 0)
            st.button(
                at.words("trials.again"),
                icon=":material/casino:",
                on_click=_again,
                args=(at.key("seed"),),
                key=at.key("again"),
            )
        found = coin.masses(rule, given.p, given.q)
        shares, accepted = coin.tried(rule, tuple(given.p), tuple(given.q), count, seed)
        st.html(said(given, rule, count, shares, sum(accepted), at.words))
        st.html(bars(given.p, given.q, found, at.words, trials=shares))
        st.caption(at.words("trials.origin", seed=seed))

    st.html(Path(__file__).with_name("coin.css"))
    show()


def _again(key: str) -> None:
    st.session_state[key] += 1


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
