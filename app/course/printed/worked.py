"""One round by hand: a sheet on which a class computes what the decoder does. Every number on it is the core's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st

from app.course.facts import coin
from app.course.files.words import Words
from app.course.overview import open_lesson
from app.ui import quirks
from specdec_measure.theory import tokens_per_pass

TOKENS = "ABC"
P, Q = (0.6, 0.3, 0.1), (0.3, 0.2, 0.5)
GUESSES, COINS, DRAWN = (
    (1, 2),
    (0.9, 0.45),
    0.6,
)  # tokens of a chain, their coins, the number that draws the last token
RULE = "speculative-sampling"
BLANK = "____"


@dataclass(frozen=True, slots=True)
class Worked:
    """The answers.

    Attributes:
        keep, shared, missing, residual: per token min(1, p/q), min(p, q), max(0, p − q) and that divided by its sum.
        alpha: the chance that a guess is kept.
        verdicts: of the guesses of the round that is played.
        last: the token drawn after them.
        endings: the chance that no guess is kept, that exactly one is, …, that all are.
        expected: tokens per pass.
    """

    keep: tuple[float, ...]
    shared: tuple[float, ...]
    missing: tuple[float, ...]
    residual: tuple[float, ...]
    alpha: float
    verdicts: tuple[str, ...]
    last: int
    endings: tuple[float, ...]
    expected: float


def worked() -> Worked:
    """The answers, by the rule itself and by the enumeration of all its rounds."""
    import torch

    from specdec_core.rules import RULES
    from specdec_core.tree import TokenTree
    from specdec_measure.exact.enumeration import rounds

    found = coin.masses(RULE, P, Q)
    rule = RULES[RULE]()
    depth = len(GUESSES)
    rows = (
        torch.tensor([P] * (depth + 1), dtype=torch.float64),
        torch.tensor([Q] * depth, dtype=torch.float64),
    )
    judged = rule.judge(TokenTree.chain(list(GUESSES)), *rows, COINS)
    endings = [0.0] * (depth + 1)
    for _, judgement, chance in rounds(
        rule, list(range(-1, depth - 1)), lambda _: P, lambda _: Q, "independent", lazy=False
    ):
        endings[len(judgement.path)] += chance
    alpha = sum(found.kept)
    return Worked(
        keep=tuple(threshold or 0.0 for threshold in found.thresholds),
        shared=found.kept,
        missing=tuple(max(0.0, p - q) for p, q in zip(P, Q, strict=True)),
        residual=found.after,
        alpha=alpha,
        verdicts=tuple(judged.verdicts),
        last=int((judged.final.cumsum(0) <= DRAWN).sum()),
        endings=tuple(endings),
        expected=tokens_per_pass(alpha, depth),
    )


def draw(words: Words) -> None:
    """The sheet, on the page and on paper; the answers only if they are asked for."""
    css = Path(__file__).with_name("sheet.css").read_text(encoding="utf-8")
    st.html(quirks.style(css))
    with st.container(key="sheet_desk"):
        st.title(words("worked.title"), anchor=False)
        st.markdown(words("worked.about"))
        key = st.toggle(words("teaching.sheet_key"), key="worked-with-key")
        st.button(
            words("teaching.sheet_back"),
            on_click=open_lesson,
            args=(None,),
            icon=":material/arrow_back:",
            key="worked-back",
        )
    with st.container(key="sheets"), st.container(key="sheet-worked"):
        st.html(sheet(words, worked(), key))


def sheet(words: Words, answers: Worked, with_key: bool) -> str:
    """The sheet as HTML: four exercises, each with its answers or with room for them."""

    number = words.number

    def shown(value: float, form: str = ".3g") -> str:
        return f"<b>{number(value, form)}</b>" if with_key else BLANK

    def said(text: str) -> str:
        return f"<b>{escape(text)}</b>" if with_key else BLANK

    columns = {
        "keep": answers.keep, "shared": answers.shared, "missing": answers.missing, "residual": answers.residual,
    }  # fmt: skip
    first = _table(
        [words("worked.token"), "p", "q", *(words(f"worked.{name}") for name in columns)],
        [
            [TOKENS[at], number(P[at]), number(Q[at]), *(shown(column[at]) for column in columns.values())]
            for at in range(len(P))
        ],
    )
    played = _table(
        [words(f"worked.{name}") for name in ("guess", "coin", "keep", "verdict")],
        [
            [TOKENS[token], number(toss), shown(answers.keep[token]), said(words(f"worked.{verdict}"))]
            for token, toss, verdict in zip(GUESSES, COINS, answers.verdicts, strict=True)
        ],
    )
    ends = _table(
        [words("worked.kept"), *(str(kept) for kept in range(len(answers.endings)))],
        [[words("worked.chance"), *(shown(chance) for chance in answers.endings)]],
    )
    texts = [
        TOKENS[token]
        for token, verdict in zip(GUESSES, answers.verdicts, strict=True)
        if verdict == "accepted"
    ]
    parts = (
        (words("worked.first"), first),
        (words("worked.second", alpha="α"), f"<p>α = {shown(answers.alpha, '.0%')}</p>"),
        (
            words("worked.third", drawn=DRAWN),
            played
            + f"<p>{escape(words('worked.written'))} {said(' '.join([*texts, TOKENS[answers.last]]))}</p>",
        ),
        (
            words("worked.fourth", gamma=len(GUESSES)),
            ends + f"<p>{escape(words('worked.expected'))} {shown(answers.expected)}</p>",
        ),
    )
    body = "".join(f"<li><p>{escape(text)}</p>{answer}</li>" for text, answer in parts)
    return (
        "<style>.worked table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4rem 0 .8rem}"
        ".worked :is(th,td){text-align:left;padding:.35rem .9rem;border:1px solid currentColor;font-weight:400}"
        ".worked ol{padding-left:1.2rem}.worked{overflow-x:auto}"
        "@media (max-width:40rem){.worked table{font-size:.8125rem}.worked :is(th,td){padding:.3rem}}</style>"
        f"<div class='worked'><p>{escape(words('worked.given', tokens=', '.join(TOKENS)))}</p><ol>{body}</ol></div>"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are HTML, the heads text."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
