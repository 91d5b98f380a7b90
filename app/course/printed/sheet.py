"""Printable sheets: for each lesson a page with its questions and the picture of the prediction, from the same files.

The answers are on it only if the key is asked for: the picture of the next step would be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.course import prediction, shuffle
from app.course.drawing import paint
from app.course.drawing.scene import Place
from app.course.files import reading
from app.course.files.lesson import Lesson
from app.course.files.words import Words
from app.course.overview import Listed, open_lesson
from app.text import plain
from app.ui import address, quirks

LESSONS_ON_A_SHEET = 30  # lessons on one page


def draw(lessons: list[Listed], words: Words) -> None:
    """The sheets of these lessons; one with a mistake is left out, since its own page reports it."""
    st.html(quirks.style(Path(__file__).with_suffix(".css").read_text(encoding="utf-8")))
    with st.container(key="sheet_desk"):
        st.title(words("teaching.sheet"), anchor=False)
        st.markdown(words("teaching.sheet_about"))
        key = st.toggle(words("teaching.sheet_key"), key="sheet-with-key")
        st.button(
            words("teaching.sheet_back"), on_click=leave, icon=":material/arrow_back:", key="sheet-back"
        )
    with st.container(key="sheets"):
        for each in lessons[:LESSONS_ON_A_SHEET]:
            lesson, _ = reading.read(words.language, each.id)
            if lesson is not None:
                with st.container(key=f"sheet-{each.id}"):
                    _one(lesson, key, words)


def leave() -> None:
    """Back to the course."""
    address.put("sheet", None)
    open_lesson(None)


def _one(lesson: Lesson, with_key: bool, words: Words) -> None:
    st.subheader(
        f"{words('course.lesson', number=lesson.number)} · {plain(lesson.front.title)}", anchor=False
    )
    st.markdown(f"**{lesson.sections['hook'].prose}**")
    if lesson.front.predict.picture is not None:
        with st.container(key=f"figure-{lesson.id}"):
            paint.draw(lesson.front.predict.picture, Place(lesson.id, "sheet", words))
    st.markdown(lesson.sections["predict"].prose)
    _options(lesson, "predict", prediction.offered(lesson, shuffle.PAPER))
    st.markdown(f"{words('teaching.sheet_note')} ______________________")
    st.markdown(f"**{words('teaching.sheet_question')}** {lesson.sections['check'].prose}")
    checks = lesson.sections["check"].items
    _options(lesson, "check", shuffle.order(checks, f"{lesson.id}-check", shuffle.PAPER))
    if with_key:
        with st.container(border=True, key=f"key-{lesson.id}"):
            st.markdown(f"**{words('teaching.sheet_answers')}** {plain(prediction.outcome(lesson, words))}")
            for key in sorted(lesson.right["predict"]):
                if note := lesson.sections["predict"].items[key].note:
                    st.markdown(note)
            for key in sorted(lesson.right["check"]):
                item = lesson.sections["check"].items[key]
                st.markdown(f"**{plain(item.text)}** {item.note}")


def _options(lesson: Lesson, at: str, names: Sequence[str]) -> None:
    rows = [f"☐ {plain(lesson.sections[at].items[name].text)}" for name in names]
    if rows:
        st.markdown("  \n".join(rows))
