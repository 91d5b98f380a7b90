"""The lessons and the learner's progress: the list next to a lesson, and the course's first screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import streamlit as st

from app.player import CURSOR
from app.records import visitor
from app.text import plain
from app.ui import address, presenter

from . import languages, progress, start_room, teaching
from .files import reading
from .files.words import Words

PARTS = (
    "at",
    "lesson",
    "claims",
    "inventory",
    "question",
    "teach",
    "worked",
)  # what an address can request here
UPLOAD, PROBLEM = "home-upload", "home-problem"
CHOSEN = 2  # of the lessons to choose from
MARKS = {"done": "✓", "started": "◐", "new": "○"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A lesson in the list."""

    id: str
    number: str
    title: str
    minutes: int
    about: str
    gallery: bool = False


def listed(language: str, order: str) -> list[Listed]:
    """The lessons in order, or those that a link names in its own order."""
    abouts, gallery = reading.abouts(language), reading.gallery(language)
    found = {
        key: Listed(key, number, title, minutes, abouts.get(key, ""), key in gallery)
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
        languages.choice(words)
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
    st.markdown(words("course.about", time=duration(minutes(lessons), words)))
    if not presenter.presenting():
        st.button(
            words("teaching.title"),
            on_click=open_part,
            args=("teach", "1"),
            icon=":material/co_present:",
            key="teach",
        )
    for chosen, group in groupby(lessons, lambda each: each.gallery):
        if chosen:
            st.markdown(words("course.gallery"))
        _cards(list(group), words)
    beside(words)
    take_home(lessons, words)


def teach(lessons: list[Listed], words: Words) -> None:
    """The teacher's page: a room, the paths, a link of one's own, and what is printed."""
    st.title(words("teaching.title"), anchor=False)
    start_room.draw(words)
    titles = {each.id: f"{each.number} · {each.title}" for each in lessons}
    lasts = {
        name: minutes([each for each in lessons if each.id in ids]) for name, ids in teaching.PRESETS.items()
    }
    with st.grid("auto", min_column_width=260, gap="small"):
        for name, ids in teaching.PRESETS.items():
            order = [key for key in ids if key in titles]
            with st.container(border=True, height="stretch", gap="xsmall", key=f"path-{name}"):
                st.markdown(f"**{words(f'teaching.{name}', minutes=lasts[name])}**")
                st.caption(plain(" → ".join(titles[key] for key in order)))
                with st.container(horizontal=True):
                    for text, present in (("open_path", False), ("present", True)):
                        st.link_button(words(f"teaching.{text}"), teaching.link(order, [], present, words))
    teaching.builder(titles, lasts, words)
    with st.container(horizontal=True):
        st.button(words("teaching.sheet"), on_click=print_sheets, icon=":material/print:", key="sheets-open")
        st.button(
            words("worked.open"),
            on_click=open_part,
            args=("worked", "1"),
            icon=":material/edit_note:",
            key="worked-open",
        )


def minutes(lessons: list[Listed]) -> int:
    """How long they take, with the usual number of those to choose from."""
    gallery = [each.minutes for each in lessons if each.gallery]
    chosen = round(min(CHOSEN, len(gallery)) * sum(gallery) / len(gallery)) if gallery else 0
    return sum(each.minutes for each in lessons if not each.gallery) + chosen


def duration(minutes: int, words: Words) -> str:
    """Minutes, or for long ones hours to the quarter."""
    if minutes < 100:
        return words("course.minutes", minutes=minutes)
    return words("course.hours", hours=round(minutes / 15) / 4)


def _cards(lessons: list[Listed], words: Words) -> None:
    with st.grid("auto", min_column_width=260, gap="small"):
        for each in lessons:
            with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{each.id}"):
                now = state(each.id)
                st.markdown(f"**{each.number} · {plain(each.title)}**")
                if each.about:
                    st.markdown(plain(each.about))
                st.caption(f"{MARKS[now]} {words(f'course.{now}')} · {duration(each.minutes, words)}")
                label = {"new": "start", "started": "go_on", "done": "again"}[now]
                st.button(
                    words(f"course.{label}"), on_click=open_lesson, args=(each.id,), key=f"open-{each.id}"
                )


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
    """The learner's answers as files, and back from one."""
    kept = progress.here()
    if "home" in teaching.hidden():
        return
    with st.expander(words("course.take_up"), icon=":material/upload_file:"):
        st.file_uploader(
            words("course.upload"), type=["json"], key=UPLOAD, on_change=_taken_up, max_upload_size=1
        )
        if st.session_state.get(PROBLEM):
            st.error(words("course.not_answers"), icon=":material/report:")
    started = any(state(each.id) != "new" for each in lessons)
    if not (started or kept.inventories or kept.claims):
        return
    st.caption(words("course.kept" if visitor.is_remembered() else "course.kept_here"))
    titles = {each.id: each.title for each in lessons}
    with st.container(horizontal=True):
        for kind, mime, text in (
            ("csv", "text/csv", progress.as_csv(kept, titles)),
            ("json", "application/json", progress.as_json(kept)),
        ):
            st.download_button(
                words(f"course.download_{kind}"), text, f"specdec-course.{kind}", mime, key=f"home-{kind}"
            )


def _taken_up() -> None:
    """Go on from an uploaded file; one that is none changes nothing."""
    given = st.session_state.get(UPLOAD)
    st.session_state[PROBLEM] = False
    if given is None:
        return
    try:
        st.session_state[progress.STORE] = progress.from_json(given.getvalue().decode("utf-8", "replace"))
    except ValueError:
        st.session_state[PROBLEM] = True


def place(key: str, lessons: list[Listed], words: Words) -> str:
    """Which of the lessons of a presentation this is, after a space; empty where it is none of them."""
    ids = [each.id for each in lessons]
    return f" · {words('course.place', at=ids.index(key) + 1, all=len(ids))}" if key in ids else ""


def before(key: str, lessons: list[Listed]) -> Callable[[], None] | None:
    """What opens the lesson before this one at its end; None if this is the first."""
    ids = [each.id for each in lessons]
    at = ids.index(key) if key in ids else 0
    return partial(_open_end, ids[at - 1]) if at else None


def _open_end(key: str) -> None:
    open_lesson(key)
    address.put("at", teaching.steps()[-1])


def onward(key: str, lessons: list[Listed], words: Words, last: bool) -> None:
    """The way to the next lesson, from one of the gallery also past the others, at the end to the questions.

    At a lesson's `last` step N leads to what comes next in the list.
    """
    ids = [each.id for each in lessons]
    if key not in ids:
        return
    at = ids.index(key)
    shortcut = "N" if last else None
    if at + 1 == len(ids):
        st.button(
            words("inventory.open_after"),
            on_click=open_part,
            args=("inventory", "after"),
            icon=":material/quiz:",
            shortcut=shortcut,
            key="course-onward",
        )
        return
    past = next((each for each in lessons[at + 1 :] if not each.gallery), None)
    enough = sum(each.gallery and state(each.id) == "done" for each in lessons) >= CHOSEN
    for name, each in {"course-onward": lessons[at + 1], "course-past": past}.items():
        if each is None or (name == "course-past" and each is lessons[at + 1]):
            continue
        st.button(
            words("course.next_lesson", title=plain(each.title)),
            on_click=open_lesson,
            args=(each.id,),
            type="primary"
            if (name == "course-past") == (enough and past is not lessons[at + 1])
            else "secondary",
            icon=":material/school:",
            shortcut=shortcut if name == "course-onward" else None,
            key=name,
        )
