"""The prediction of a lesson: asked for, locked in, and kept on screen next to the outcome.

The outcome is not sent to the browser before the prediction is locked in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.text import plain
from app.ui import presenter

from . import progress, shuffle
from .files.lesson import Given, Lesson, Section
from .files.words import Words


def ask(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    """The options, or the given answer."""
    front = lesson.front.predict
    section = lesson.sections["predict"]
    if mine.predict is not None:
        strip(lesson, mine, words)
        return
    key = f"course-{lesson.id}-prediction"
    if front.kind == "number":
        st.number_input(
            words("steps.your_number", low=front.low, high=front.high),
            min_value=front.low,
            max_value=front.high,
            value=None,
            step=front.step,
            format="%g",
            key=key,
        )
    elif front.kind == "several":
        st.pills(
            words("steps.your_choices"),
            offered(lesson),
            selection_mode="multi",
            format_func=lambda name: section.items[name].text,
            key=key,
        )
    else:
        options(words("steps.your_prediction"), section, offered(lesson), key)


def lock(lesson: Lesson, mine: progress.LessonProgress, words: Words, go: Callable[[str], None]) -> None:
    """The button that locks the prediction in, until it is; `go` then opens the next step."""
    if mine.predict is not None:
        return
    key = f"course-{lesson.id}-prediction"
    given = st.session_state.get(key)
    st.button(
        words("steps.lock_value", value=given) if isinstance(given, float) else words("steps.lock"),
        icon=":material/lock:",
        type="primary",
        disabled=given is None or given == [],
        on_click=_lock,
        args=(lesson, mine, key, go),
        key="course-lock",
        help=words("steps.lock_help"),
    )
    if presenter.presenting():
        st.button(words("steps.reveal"), shortcut="P", on_click=_reveal, args=(mine, go), key="course-reveal")


def _lock(lesson: Lesson, mine: progress.LessonProgress, key: str, go: Callable[[str], None]) -> None:
    given = st.session_state.get(key)
    if given is None or mine.predict is not None:
        return
    mine.predict = progress.answer(given, lesson.is_right("predict", given))
    go("watch")


def _reveal(mine: progress.LessonProgress, go: Callable[[str], None]) -> None:
    reveal(mine)
    go("watch")


def reveal(mine: progress.LessonProgress) -> None:
    """Lets a teacher continue without a prediction of their own: the class has made theirs aloud."""
    if mine.predict is None:
        mine.predict = progress.answer(None, None)


def strip(lesson: Lesson, mine: progress.LessonProgress, words: Words, *, open_end: bool = False) -> None:
    """The prediction, on every later screen; next to the outcome, unless that should be seen first."""
    found = mine.predict
    if found is None:
        return
    parts = []
    if found.given is not None:  # otherwise a class has made its predictions aloud
        parts.append(words("steps.you_said", said=plain(_in_words(lesson, found.given, words))))
    if not open_end:
        parts.append(words("steps.it_was", was=plain(outcome(lesson, words))))
    mark = {True: ":green[✓]", False: "✗", None: ""}[found.right] if not open_end else ""
    if parts:
        st.markdown(" · ".join([*parts, mark] if mark else parts))


def _in_words(lesson: Lesson, given: Given, words: Words) -> str:
    if isinstance(given, float | int):
        return words.number(given, "g")
    items = lesson.sections["predict"].items
    keys = given if isinstance(given, list) else [given]
    return ", ".join(items[key].text for key in keys if key in items)


def outcome(lesson: Lesson, words: Words) -> str:
    """What the prediction should have been."""
    if lesson.answer is not None:
        return words.number(lesson.answer, ".3g")
    items = lesson.sections["predict"].items
    return ", ".join(items[key].text for key in items if key in lesson.right["predict"])


def offered(lesson: Lesson, whose: str | None = None) -> list[str]:
    """The options of the prediction in this visitor's order, or in somebody's; a scale keeps its own."""
    names, where = lesson.sections["predict"].items, f"{lesson.id}-predict"
    if lesson.front.predict.ordered:
        return list(names)
    return shuffle.mine(names, where) if whose is None else shuffle.order(names, where, whose)


def options(label: str, section: Section, names: Sequence[str], key: str) -> str | None:
    """One of a section's options, in this order; none chosen at first."""
    picked: str | None = st.radio(
        label, names, index=None, format_func=lambda name: section.items[name].text, key=key
    )
    return picked
