"""The page of common claims: one card each; the visitor gives a verdict before seeing the answer.

A claim's answer and demonstration are sent to the browser only after the visitor has chosen true, it depends, or false.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st

from app.course import progress
from app.course.drawing import paint
from app.course.drawing.projector import draw as draw_chart
from app.course.drawing.scene import Place
from app.course.files.words import Words
from app.course.live import measured
from app.records import examples as recorded
from app.text import plain

from . import claims
from .claims import VERDICTS, Claim
from .claims_chart import chart

GLYPHS = {"true": "✓", "conditional": "◐", "false": "✗"}


def draw(words: Words) -> None:
    """All claims; those already answered with their verdicts."""
    st.html(Path(__file__).with_name("claims.css"))
    st.title(words("claims.title"), anchor=False)
    st.markdown(words("claims.about"))
    found, problems = claims.every(words.language)
    said = progress.here().claims
    st.caption(words("claims.so_far", said=sum(claim.id in said for claim in found), all=len(found)))
    for claim in found:
        with st.container(border=True, key=f"claim-card-{claim.id}"):
            _card(claim, words)
    if problems:
        st.error(words("claims.broken"), icon=":material/report:")
        for problem in problems:
            st.markdown(f"- {plain(str(problem))}")


def _card(claim: Claim, words: Words) -> None:
    st.markdown(f"## {words('claims.quoted', claim=plain(claim.front.claim))}")
    st.markdown("  \n".join([words("claims.heard"), *map(_source, claim.front.heard)]))
    mine = progress.here().claims.get(claim.id)
    if mine is None:
        st.markdown(words("claims.ask"))
        with st.container(horizontal=True):
            for verdict in VERDICTS:
                st.button(
                    f"{GLYPHS[verdict]} {words(f'claims.{verdict}')}",
                    key=f"claim-{claim.id}-{verdict}",
                    on_click=_say,
                    args=(claim, verdict),
                    help=words("claims.lock_help"),
                )
        return
    _verdict(claim, mine, words)
    st.markdown(claim.sections["answer"].prose)
    st.markdown(f"**{words('claims.demonstration')}** {claim.sections['demonstration'].prose}")
    _demonstration(claim, words)
    if claim.front.beside:
        st.markdown("  \n".join([words("claims.beside"), *map(_source, claim.front.beside)]))


def _source(source: claims.Source) -> str:
    return f"[{plain(source.name)}]({source.link}): {plain(source.says)}"


def _say(claim: Claim, verdict: str) -> None:
    """Lock in the visitor's verdict."""
    progress.here().claims.setdefault(claim.id, progress.answer(verdict, verdict == claim.verdict))


def _verdict(claim: Claim, mine: progress.Answer, words: Words) -> None:
    """The verdict next to the visitor's: a word, a glyph and a colour."""
    chosen = words(f"claims.{mine.given}") if mine.given in VERDICTS else ""
    st.html(
        f"<p class='verdict {claim.verdict}'><strong><span aria-hidden='true'>{GLYPHS[claim.verdict]}</span> "
        f"{escape(words(f'claims.is_{claim.verdict}'))}</strong> "
        f"<span>{escape(words('claims.you_said', said=chosen))}</span></p>"
    )


def _demonstration(claim: Claim, words: Words) -> None:
    if claim.front.picture is not None:
        paint.draw(claim.front.picture, Place(claim.id, "claim", words))
    if claim.front.chart is not None and claim.drawn is not None:
        made = chart(
            claim.front.chart,
            claim.drawn,
            claim.sections["demonstration"].items,
            provenance(claim.front.chart, words),
            words.number,
        )
        draw_chart(made, f"claim-{claim.id}-chart", words)


def provenance(figure: claims.Figure, words: Words) -> str:
    """The source of a chart's numbers."""
    if figure.label == "recorded":
        example = recorded.find(figure.of or "")
        assert example is not None
        return words("claims.recorded", machine=example.machine, date=example.recorded[:10])
    if figure.label == "modelled" and figure.of is not None:
        return measured.origin(claims.profile(figure.of), words) + " · " + words("claims.modelled_pair")
    return words(f"claims.{figure.label}")
