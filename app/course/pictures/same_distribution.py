"""Two runs from one seed, plain and speculative: different words; in many runs, every text is equally frequent."""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st
from pydantic import Field, model_validator

from app.course.facts import same_distribution
from app.course.facts.same_distribution import Language
from app.course.lesson import Strict
from app.course.words import Words
from app.ui.fragment import fragment
from specdec_core import Trace
from specdec_measure.exact.distribution import Distribution, total_variation

from . import Place

COUNTS = (1, 100, 10_000)
MARKS = {"accepted": "✓", "corrected": "↻", "bonus": "★", "plain": ""}


class With(Strict):
    """`before`: the first word; `target` and `draft`: for each word its successors and their probabilities; `words`: of
    the two runs; `counted`: words of the counted texts; `gamma`: the draft length."""

    before: str = Field(min_length=1, max_length=16)
    target: dict[str, dict[str, float]] = Field(min_length=2, max_length=12)
    draft: dict[str, dict[str, float]] = Field(min_length=2, max_length=12)
    words: int = Field(12, ge=2, le=40)
    counted: int = Field(2, ge=1, le=3)
    gamma: int = Field(2, ge=1, le=3)

    @model_validator(mode="after")
    def distributions(self) -> With:
        """Whether the tables are distributions."""
        self.language()
        return self

    def language(self) -> Language:
        """The two tables as distributions."""
        return same_distribution.language(self.before, self.target, self.draft)


def draw(given: With, at: Place) -> None:
    """Draw one run of each kind, or how often each text comes up in many; with new random numbers on demand."""

    @fragment
    def show() -> None:
        of = given.language()
        with st.container(horizontal=True, vertical_alignment="bottom"):
            count = st.segmented_control(
                at.words("same_distribution.count"),
                COUNTS,
                default=COUNTS[0],
                format_func=at.words.whole,
                required=True,
                key=at.key("count"),
            )
            seed = st.session_state.setdefault(at.key("seed"), 0)
            st.button(
                at.words("same_distribution.again"),
                icon=":material/casino:",
                on_click=_again,
                args=(at.key("seed"),),
                key=at.key("again"),
            )
        if count == COUNTS[0]:
            st.html(lanes(of, same_distribution.texts(of, given.words, given.gamma, seed), seed, at.words))
            st.caption(at.words("same_distribution.origin", seed=seed))
            return
        target, written = same_distribution.exact(of, given.counted, given.gamma)
        plain, guessed = same_distribution.sampled(of, given.counted, given.gamma, count, seed)
        st.html(table(of, target, written, plain, guessed, count, at.words))
        st.caption(at.words("same_distribution.counted", seed=seed))

    st.html(Path(__file__).with_suffix(".css"))
    show()


def _again(key: str) -> None:
    st.session_state[key] += 1


def lanes(of: Language, runs: tuple[Trace, Trace], seed: int, words: Words) -> str:
    """The two texts, with differing words marked."""
    shown = []
    texts = [trace.token_ids for trace in runs]
    for name, trace in zip(("plain", "guessed"), runs, strict=True):
        sources = [source for row in trace.rounds for source in row.committed.source]
        chips = "".join(
            f"<span class='{source}{'' if one == two else ' differs'}'><b>{escape(of.words[token])}</b>"
            f"<i>{MARKS[source]}</i></span>"
            for token, source, one, two in zip(trace.token_ids, sources, *texts, strict=True)
        )
        passes = words("same_distribution.passes", passes=len(trace.rounds), words=len(trace.token_ids))
        shown.append(
            f"<dt>{escape(words(f'same_distribution.{name}'))}<small>{escape(passes)}</small></dt>"
            f"<dd translate='no'><span class='root'><b>{escape(of.before)}</b></span>{chips}</dd>"
        )
    differing = sum(one != two for one, two in zip(*texts, strict=True))
    sentence = words("same_distribution.differing", differing=differing, words=len(texts[0]), seed=seed)
    said = f"<p role='status'>{escape(sentence)}</p>"
    return f"<div class='same-texts'>{said}<dl class='texts'>{''.join(shown)}</dl></div>"


def table(
    of: Language,
    target: Distribution,
    written: Distribution,
    plain: Distribution,
    guessed: Distribution,
    count: int,
    words: Words,
) -> str:
    """How often each text begins a run: exactly, in plain runs, in speculative runs."""
    order = sorted(target, key=lambda text: (-round(target[text], 9), text))
    top = max(*target.values(), *plain.values(), *guessed.values())
    rows = "".join(_row(of, text, target, plain, guessed, top, words) for text in order)
    away = [total_variation(one, target) for one in (written, plain, guessed)]
    exact = "0" if away[0] < 1e-9 else words.number(away[0], ".3f")
    sentence = words(
        "same_distribution.distances",
        exact=exact,
        plain=words.number(away[1], ".3f"),
        guessed=words.number(away[2], ".3f"),
        count=words.whole(count),
    )
    heads = "".join(
        f"<th scope='col'><span class='sign {key}' aria-hidden='true'></span>{escape(name)}</th>"
        for key, name in ((key, words(f"same_distribution.{key}")) for key in ("exact", "plain", "guessed"))
    )
    return (
        f"<div class='same-texts'><table class='counts'><caption>{escape(words('same_distribution.table'))}</caption>"
        f"<thead><tr><th scope='col'>{escape(words('same_distribution.text'))}</th><td></td>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        f"<p role='status'>{escape(sentence)}</p></div>"
    )


def _row(
    of: Language,
    text: tuple[int, ...],
    target: Distribution,
    plain: Distribution,
    guessed: Distribution,
    top: float,
    words: Words,
) -> str:
    marks = "".join(
        f"<div class='{kind}' style='left:{100 * shares.get(text, 0.0) / top:.2f}%'></div>"
        for kind, shares in (("plain", plain), ("guessed", guessed))
    )
    numbers = "".join(
        f"<td class='number'>{words.number(shares.get(text, 0.0), '.3f')}</td>"
        for shares in (target, plain, guessed)
    )
    return (
        f"<tr><th scope='row' translate='no'>{escape(of.before)} {escape(of.text(text))}</th>"
        f"<td class='track'><div class='distribution' style='width:{100 * target[text] / top:.2f}%'></div>{marks}</td>"
        f"{numbers}</tr>"
    )
