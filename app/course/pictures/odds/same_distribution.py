"""Two runs from one seed, plain and speculative: different words; in many runs, every text is equally frequent."""

from __future__ import annotations

from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Button, Columns, Html, Markdown, Part, Place, Values, choose, style
from app.course.facts import same_distribution
from app.course.facts.same_distribution import Language
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.theme import SIGNS
from specdec_core import Trace
from specdec_measure.exact.distribution import Distribution, total_variation

COUNTS = (1, 100, 10_000)
MARKS = {**SIGNS, "plain": ""}


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


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The number of runs, and a button for new random numbers."""
    words = at.words
    again = {"seed": values.get("seed", 0) + 1}
    return [
        Columns(
            [
                choose("count", words("same_distribution.count"), COUNTS, COUNTS[0], words.whole),
                Button("again", words("same_distribution.again"), again, "casino"),
            ],
            gap="small",
        )
    ]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """One run of each kind, or how often each text comes up in many."""
    of, count, seed = given.language(), values["count"], values.get("seed", 0)
    if count == COUNTS[0]:
        shown = lanes(of, same_distribution.texts(of, given.words, given.gamma, seed), seed, at.words)
        return [
            style(__file__),
            Html(shown),
            Markdown(at.words("same_distribution.origin", seed=seed), "small"),
        ]
    target, written = same_distribution.exact(of, given.counted, given.gamma)
    plain, guessed = same_distribution.sampled(of, given.counted, given.gamma, count, seed)
    shown = table(of, target, written, plain, guessed, count, at.words)
    return [style(__file__), Html(shown), Markdown(at.words("same_distribution.counted", seed=seed), "small")]


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
