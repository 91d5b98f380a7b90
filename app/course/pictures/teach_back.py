"""The learner explains in their own words; the text is kept in the session and downloaded with the answers."""

from __future__ import annotations

from functools import partial

import streamlit as st
from pydantic import Field

from app.course import progress
from app.course.lesson import Strict
from app.ui.fragment import fragment

from . import Place

MOST = 1_200  # characters


class With(Strict):
    """`lines`: the height of the field, in lines."""

    lines: int = Field(6, ge=3, le=12)


def draw(given: With, at: Place) -> None:
    """Draw the field and its download."""
    key, lesson, kept = at.key("note"), at.id, progress.here()

    @fragment
    def show() -> None:
        st.text_area(
            at.words("teach-back.label"),
            value=kept.notes.get(lesson, ""),
            height=24 * given.lines,
            max_chars=MOST,
            placeholder=at.words("teach-back.placeholder"),
            help=at.words("teach-back.help"),
            key=key,
            on_change=keep,
            args=(lesson, key),
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(at.words("teach-back.keep"), icon=":material/check:", key=at.key("keep"))
            written = kept.notes.get(lesson, "")
            st.download_button(
                at.words("teach-back.download"),
                partial(progress.as_json, kept),  # computed outside of the session, on a click
                "specdec-course.json",
                "application/json",
                icon=":material/download:",
                disabled=not written,
                on_click="ignore",
                key=at.key("home"),
            )
            st.caption(
                at.words("teach-back.kept" if written else "teach-back.empty", count=len(written.split()))
            )

    show()


def keep(lesson: str, key: str) -> None:
    """Keep the text: plain, truncated to the allowed length; deleted if emptied."""
    written = "".join(
        sign for sign in str(st.session_state.get(key) or "") if sign in "\n\t" or sign.isprintable()
    ).strip()[:MOST]
    if written:
        progress.here().notes[lesson] = written
    else:
        progress.here().notes.pop(lesson, None)
