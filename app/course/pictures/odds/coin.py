"""One guess as two bars per token: what the draft guesses, and what is written; the coin falls inside the first.

The part of q below p is kept, the part above it is refused, and its mass fills the gaps below p: none is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, scale, style
from app.course.facts import coin
from app.course.facts.coin import Masses
from app.course.files.lesson import Strict
from app.course.files.words import Words

LETTERS = "ABCDEF"
RULE = "speculative-sampling"
MIN_PART = 0.012  # of the height: a thinner part of a bar would not be visible


class With(Strict):
    """`p` and `q`: the target's and the draft's probabilities of two to six tokens, A, B, …; `token`: the initial
    guess; `ask`: only p and q are shown."""

    p: list[float] = Field(min_length=2, max_length=6)
    q: list[float] = Field(min_length=2, max_length=6)
    token: int = 0
    ask: bool = False

    @model_validator(mode="after")
    def distributions(self) -> With:
        """Whether they are distributions over the same tokens, and the token can be guessed."""
        coin.masses(RULE, self.p, self.q)
        if not 0 <= self.token < len(self.q) or self.q[self.token] == 0.0:
            raise ValueError("`token` has to be the number, from 0, of a token that the draft can guess")
        return self


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The guess and its coin, unless only the question is asked."""
    if given.ask:
        return []
    possible = [token for token, share in enumerate(given.q) if share > 0.0]
    token = choose("token", at.words("coin.guess"), possible, given.token, LETTERS.__getitem__)
    return [Columns([token, scale("u", at.words("coin.u"), 0.0, 0.99, 0.3, 0.01, at.words, width=360)])]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The bars, and below what becomes of the guess."""
    if given.ask:
        return [style(__file__), Html(question(given.p, given.q, at.words))]
    found, token, u = coin.masses(RULE, given.p, given.q), values["token"], values["u"]
    return [
        style(__file__),
        Html(tossed(given.p, given.q, found, token, u, at.words)),
        Html(bars(given.p, given.q, found, at.words, coin_at=(token, u))),
        Markdown(at.words("coin.origin"), "small"),
    ]


def tossed(p: Sequence[float], q: Sequence[float], found: Masses, token: int, u: float, words: Words) -> str:
    """This coin's effect, in a sentence."""
    bar = found.thresholds[token]
    assert bar is not None
    kept = u < bar
    sentence = words(
        "coin.kept" if kept else "coin.fell",
        token=LETTERS[token],
        u=words.number(u, ".2f"),
        bar=words.number(bar, ".2f"),
        p=words.number(p[token], ".2f"),
        q=words.number(q[token], ".2f"),
        after=words("coin.and").join(
            words("coin.share", token=LETTERS[other], share=words.number(share, ".0%"))
            for other, share in enumerate(found.after)
            if share > 0.0005
        ),
    )
    kind, mark = ("kept", "✓") if kept else ("fell", "✗")
    return f"<p class='tossed {kind}' role='status'><b>{mark}</b> {escape(sentence)}</p>"


def question(p: Sequence[float], q: Sequence[float], words: Words) -> str:
    """p and q side by side, without what is kept, refused or filled."""
    top = max(*p, *q)
    plots = "".join(
        f"<td><div class='plot'>{layer('q', 0, mine, top)}{layer('p', 0, wanted, top)}</div></td>"
        for wanted, mine in zip(p, q, strict=True)
    )
    return table(plots, [("q", q), ("p", p)], words, words("coin.table_question"), ["q", "p"])


def bars(
    p: Sequence[float],
    q: Sequence[float],
    found: Masses,
    words: Words,
    coin_at: tuple[int, float] | None = None,
    trials: Sequence[float] | None = None,
) -> str:
    """For each token the guessed bar with its refused part, the written bar, and p as a frame around it.

    Args:
        coin_at: a token and a coin u, drawn at the height u q of its guessed bar.
        trials: how often each token was written in trials, drawn as a diamond.
    """
    top = max(*p, *q, *found.written, *(trials or ()))
    plots = []
    for token, (wanted, mine) in enumerate(zip(p, q, strict=True)):
        kept, filled = found.kept[token], found.filled[token]
        left = layer("kept", 0, kept, top) + layer("falls", kept, mine - kept, top, "✗")
        right = layer("kept", 0, kept, top) + layer("fills", kept, filled, top, "↻")
        right += layer("wanted", 0, wanted, top)
        if coin_at is not None and coin_at[0] == token:
            landed = "kept" if coin_at[1] * mine < kept else "fell"
            left += f"<div class='toss {landed}' style='bottom:{100 * coin_at[1] * mine / top:.2f}%'><b>u</b></div>"
        if trials is not None:
            right += f"<div class='tried' style='bottom:{100 * trials[token] / top:.2f}%'>◆</div>"
        plots.append(
            f"<td><div class='plot'><div class='bar guessed'>{left}</div><div class='bar out'>{right}</div></div></td>"
        )
    rows = [("q", q), ("p", p), ("written", found.written)]
    if trials is not None:
        rows.append(("trials", trials))
    legend = ["kept", "falls", "fills", "wanted", *(["tried"] if trials is not None else [])]
    return table("".join(plots), rows, words, words("coin.table"), legend)


def layer(kind: str, bottom: float, height: float, top: float, mark: str = "") -> str:
    """A part of a bar; empty parts are left out."""
    if height < 1e-9:
        return ""
    tall = max(MIN_PART, height / top)
    shown = f"<i aria-hidden='true'>{mark}</i>" if mark and tall > 0.12 else ""
    return (
        f"<div class='{kind}' style='bottom:{100 * bottom / top:.2f}%;height:{100 * tall:.2f}%'>{shown}</div>"
    )


def table(
    plots: str, rows: Sequence[tuple[str, Sequence[float]]], words: Words, caption: str, legend: Sequence[str]
) -> str:
    letters = "".join(f"<th scope='col'>{LETTERS[token]}</th>" for token in range(len(rows[0][1])))
    numbers = "".join(
        f"<tr class='{key}'><th scope='row'>{escape(words(f'coin.row_{key}'))}</th>"
        + "".join(f"<td>{words.number(value, '.3f' if key == 'trials' else '.2f')}</td>" for value in row)
        + "</tr>"
        for key, row in rows
    )
    signs = "".join(
        f"<li><span class='sign {key}' aria-hidden='true'></span>{escape(words(f'coin.sign_{key}'))}</li>"
        for key in legend
    )
    return (
        f"<div class='coin'><table><caption>{escape(caption)}</caption>"
        f"<thead><tr class='plots'><td></td>{plots}</tr><tr><td></td>{letters}</tr></thead>"
        f"<tbody>{numbers}</tbody></table><ul class='signs'>{signs}</ul></div>"
    )
