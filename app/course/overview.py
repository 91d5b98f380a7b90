"""The lessons and the learner's progress: the list next to a lesson, and the course's first screen."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app.player import CURSOR
from app.text import plain
from app.ui import address

from . import progress, reading, teaching
from .words import Words

PARTS = ("at", "lesson", "claims", "inventory", "question")  # what an address can request on this page
MARKS = {"done": "✓", "started": "◐", "new": "○"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A lesson in the list."""

    id: str
    number: str
    title: str
    minutes: float
    about: str


def listed(language: str, order: str) -> list[Listed]:
    """The lessons in order, or those that a link names in its own order."""
    abouts = reading.abouts(language)
    found = {
        key: Listed(key, number, title, minutes, abouts.get(key, ""))
        for number, key, title, minutes in reading.titles(language)
    }
    wanted = [key for key in order.split(",") if key in found]
    return [found[key] for key in dict.fromkeys(wanted)] if wanted else list(found.values())


def state(key: str) -> str:
    """A lesson's progress: done, started or new."""
    mine = progress.here().lessons.get(key)
    if mine is None or (mine.predict is None and not mine.done):
        return "new"
    return "done" if mine.done else "started"


def open_lesson(key: str | None) -> None:
    """Show a lesson from its beginning; without one, the list of all."""
    address.drop((*CURSOR, *PARTS))
    if key is not None:
        address.put("lesson", key)


def rail(lessons: list[Listed], words: Words) -> None:
    """The list of lessons next to the page, each with its progress."""
    with st.sidebar:
        st.button(
            words("course.overview"), on_click=open_lesson, args=(None,), type="tertiary", key="course-all"
        )
        for each in lessons:
            here = st.query_params.get("lesson") == each.id
            st.button(
                f"{MARKS[state(each.id)]} {each.number} {plain(each.title)}",
                on_click=open_lesson,
                args=(each.id,),
                type="secondary" if here else "tertiary",
                key=f"rail-{each.id}",
                width="stretch",
                help=words(f"course.{state(each.id)}"),
            )


def draw(lessons: list[Listed], words: Words) -> None:
    """The first screen: what the course is, the lessons, the downloads."""
    st.title(words("course.title"), anchor=False)
    st.markdown(words("course.about", minutes=sum(each.minutes for each in lessons)))
    with st.grid("auto", min_column_width=260, gap="small"):
        for each in lessons:
            with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{each.id}"):
                now = state(each.id)
                st.markdown(f"**{each.number} · {plain(each.title)}**")
                if each.about:
                    st.markdown(plain(each.about))
                minutes = words("course.minutes", minutes=each.minutes)
                st.caption(f"{MARKS[now]} {words(f'course.{now}')} · {minutes}")
                label = {"new": "start", "started": "go_on", "done": "again"}[now]
                st.button(
                    words(f"course.{label}"), on_click=open_lesson, args=(each.id,), key=f"open-{each.id}"
                )
    beside(words)
    take_home(lessons, words)
    teaching.builder({each.id: f"{each.number} · {each.title}" for each in lessons}, words)
    st.button(words("teaching.sheet"), on_click=print_sheets, icon=":material/print:", key="sheets-open")


def beside(words: Words) -> None:
    """What there is besides the lessons: the questions before and after them, and the claims."""
    with st.container(horizontal=True):
        for key, value, text in (
            ("inventory", "before", "inventory.open_before"),
            ("inventory", "after", "inventory.open_after"),
            ("claims", "1", "claims.open"),
        ):
            st.button(
                words(text),
                on_click=open_part,
                args=(key, value),
                icon=":material/fact_check:" if key == "claims" else ":material/quiz:",
                key=f"beside-{key}-{value}",
            )


def open_part(key: str, value: str) -> None:
    """Show one of the parts besides the lessons."""
    open_lesson(None)
    address.put(key, value)


def print_sheets() -> None:
    """Show the sheets of the listed lessons."""
    open_lesson(None)
    address.put("sheet", "1")


def take_home(lessons: list[Listed], words: Words) -> None:
    """The learner's answers as files."""
    kept = progress.here()
    started = any(state(each.id) != "new" for each in lessons)
    if "home" in teaching.hidden() or not (started or kept.inventories or kept.claims):
        return
    st.caption(words("course.kept"))
    titles = {each.id: each.title for each in lessons}
    with st.container(horizontal=True):
        for kind, mime, text in (
            ("csv", "text/csv", progress.as_csv(kept, titles)),
            ("json", "application/json", progress.as_json(kept)),
        ):
            st.download_button(
                words(f"course.download_{kind}"), text, f"specdec-course.{kind}", mime, key=f"home-{kind}"
            )


def onward(key: str, lessons: list[Listed], words: Words) -> None:
    """The link to the next lesson."""
    ids = [each.id for each in lessons]
    if key in ids and (at := ids.index(key) + 1) < len(ids):
        st.button(
            words("course.next_lesson", title=plain(lessons[at].title)),
            on_click=open_lesson,
            args=(ids[at],),
            type="primary",
            icon=":material/school:",
            key="course-onward",
        )
