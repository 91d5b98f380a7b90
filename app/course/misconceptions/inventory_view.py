"""The inventory on the page: one question at a time; before the course, nothing says what is right.

After the course each answer is followed by its explanation, the lesson on it and that lesson's picture; at the end both
answers to each question are shown side by side. The right option is not sent before the question is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import cast, get_args

import streamlit as st

from app.course import overview, progress, shuffle
from app.course.drawing import paint
from app.course.drawing.scene import Place
from app.course.files import reading
from app.course.files.words import Words
from app.player import CURSOR
from app.text import plain
from app.ui import address

from . import inventory
from .inventory import QUESTIONS, Inventory, Question, When

PARAM, AT, RESULT = "inventory", "question", "result"
GLYPHS = {True: "✓", False: "✗"}


def draw(asked: str, words: Words) -> None:
    """The question the address requests, or the first open one; `asked` is before or after."""
    st.html(Path(__file__).with_name("inventory.css"))
    st.title(words("inventory.title"), anchor=False)
    if asked not in get_args(When):
        st.warning(words("inventory.unknown"), icon=":material/search_off:")
        return
    when = cast(When, asked)
    found, problems = inventory.read(words.language, when)
    if found is None:
        st.error(words("inventory.broken"), icon=":material/report:")
        for problem in problems:
            st.markdown(f"- {plain(str(problem))}")
        return
    st.markdown(words(f"inventory.about_{when}"))
    st.caption(words("inventory.no_claim"))
    answers = progress.here().inventories.get(when, {})
    if when == "before" and inventory.complete(answers):
        _thanks(words)
        return
    key = _place(when, answers)
    if key == RESULT:
        _result(words)
    else:
        _question(found, found.questions[key], when, words)


def standing() -> str:
    """The question or the result that the address requests; empty if it requests none."""
    asked = st.query_params.get(PARAM)
    if asked not in get_args(When):
        return ""
    when = cast(When, asked)
    return _place(when, progress.here().inventories.get(when, {}))


def _place(when: When, answers: dict[str, progress.Answer]) -> str:
    """Before the course the first open question; after it also any answered one, and at the end the result."""
    first = inventory.first_open(answers)
    asked = st.query_params.get(AT, "")
    if when == "after" and (asked in answers or (asked == RESULT and first is None)):
        return asked
    return first or RESULT


def _question(found: Inventory, question: Question, when: When, words: Words) -> None:
    number = QUESTIONS.index(question.id) + 1
    with st.container(key="inventory-number"):
        st.markdown(f"## {words('inventory.number', number=number, all=len(QUESTIONS))}")
    st.progress((number - 1) / len(QUESTIONS))
    st.markdown(question.text.prose)
    mine = progress.here().inventories.get(when, {}).get(question.id)
    if mine is not None:
        _explained(question, mine, words)
        with st.container(horizontal=True, key="inventory-moves"):
            _move(question, -1, words)
            _move(question, 1, words)
        _treated(question, words)
        return
    key = f"inventory-{when}-{question.id}"
    items = question.text.items
    given = st.radio(
        words("inventory.your_answer"),
        shuffle.mine(items, key),
        index=None,
        format_func=lambda name: items[name].text,
        key=key,
    )
    st.button(
        words("inventory.answer"),
        type="primary",
        disabled=given is None,
        on_click=_answered,
        args=(found, when, question.id, key),
        key="inventory-answer",
        help=words("inventory.lock_help"),
    )


def _answered(found: Inventory, when: When, question: str, key: str) -> None:
    given = st.session_state.get(key)
    if given is None:
        return
    inventory.answer(found, when, question, given)
    if when == "after":
        _go(question)


def _go(question: str) -> None:
    """Show another question or the result; the old picture's player position is dropped."""
    address.drop(CURSOR)
    address.put(AT, question)


def _move(question: Question, by: int, words: Words) -> None:
    """To the previous or next question; B and N on the keyboard."""
    at = QUESTIONS.index(question.id) + by
    if at < 0:
        return
    answers = progress.here().inventories.get("after", {})
    target = QUESTIONS[at] if at < len(QUESTIONS) else inventory.first_open(answers) or RESULT
    name = "back" if by < 0 else "result" if target == RESULT else "next"
    act: Callable[[str], None] = _go if target == RESULT or target in answers else _forward
    st.button(
        words(f"inventory.{name}"),
        on_click=act,
        args=(target,),
        shortcut="B" if by < 0 else "N",
        type="secondary" if by < 0 else "primary",
        icon=":material/arrow_back:" if by < 0 else ":material/arrow_forward:",
        key=f"inventory-{'back' if by < 0 else 'next'}",
    )


def _forward(_target: str) -> None:
    """To the first question that is open."""
    _go("")
    address.put(AT, None)


def _explained(question: Question, mine: progress.Answer, words: Words) -> None:
    """The answer, what is right, and why."""
    items = question.text.items
    chosen, best = items.get(str(mine.given)), items[question.right]
    st.markdown(words("inventory.you_answered", said=plain(chosen.text if chosen else "—")))
    if mine.right:
        st.success(best.note, icon=":material/check_circle:")
    else:
        st.error((chosen and chosen.note) or words("inventory.not_it"), icon=":material/cancel:")
        st.markdown(words("inventory.right_is", answer=plain(best.text)) + " " + best.note)
    if mine.given in question.mistakes:
        text = words(f"misconceptions.{question.id}")
        st.markdown(words("inventory.misconception", text=text))


def _treated(question: Question, words: Words) -> None:
    """The lessons on it, and the picture of the one that explains it best."""
    lesson = inventory.lesson_on(words.language, question)
    if lesson is None:
        st.caption(words("inventory.no_lesson"))
        return
    names = {key: (number, title) for number, key, title, _ in reading.titles(words.language)}
    with st.container(horizontal=True):
        for key in inventory.treating(words.language)[question.id]:
            number, title = names[key]
            st.button(
                words("inventory.lesson", number=number, title=plain(title)),
                on_click=overview.open_lesson,
                args=(key,),
                icon=":material/school:",
                key=f"inventory-lesson-{key}",
            )
    st.markdown(words("inventory.picture", number=lesson.number, title=plain(lesson.front.title)))
    paint.draw(lesson.front.watch, Place(lesson.id, f"inventory-{question.id}", words))


# --- at the end ----------------------------------------------------------------------------------------------------


def _thanks(words: Words) -> None:
    st.success(words("inventory.thanks"), icon=":material/check_circle:")
    st.button(
        words("inventory.to_lessons"),
        on_click=overview.open_lesson,
        args=(None,),
        type="primary",
        icon=":material/school:",
        key="inventory-lessons",
    )
    _download(words)


def _result(words: Words) -> None:
    """For each misconception the answers to both of its questions, side by side."""
    kept = progress.here().inventories
    asked = {when: inventory.read(words.language, when)[0] for when in inventory.WHEN}
    head = "".join(
        f"<th scope='col'>{escape(words(f'inventory.{name}'))}</th>"
        for name in ("question", "before", "after")
    )
    rows = "".join(
        f"<tr><th scope='row'><b>{key}</b> {escape(words(f'misconceptions.{key}'))}</th>"
        + "".join(
            _cell(found.questions[key] if found else None, kept.get(when, {}).get(key), when, words)
            for when, found in asked.items()
        )
        + "</tr>"
        for key in QUESTIONS
    )
    caption = escape(words("inventory.side_by_side"))
    st.html(
        f"<table class='inventory'><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    _download(words)
    st.button(words("inventory.review"), on_click=_go, args=(QUESTIONS[0],), key="inventory-review")


def _cell(question: Question | None, found: progress.Answer | None, when: When, words: Words) -> str:
    named = f"data-when='{escape(words(f'inventory.{when}'), quote=True)}'"
    if found is None or question is None:
        return f"<td {named}>{escape(words('inventory.not_given'))}</td>"
    right = found.right if found.right is not None else found.given == question.right
    item = question.text.items.get(str(found.given))
    state = words("inventory.right" if right else "inventory.wrong")
    return (
        f"<td {named} class='{'right' if right else 'wrong'}'><b><span aria-hidden='true'>{GLYPHS[right]}</span> "
        f"{escape(state)}</b> {escape(_plainly(item.text if item else '—'))}</td>"
    )


def _plainly(text: str) -> str:
    """A text without the marks of Markdown."""
    return text.replace("*", "").replace("`", "").replace("$", "")


def _download(words: Words) -> None:
    st.caption(words("inventory.kept"))
    st.download_button(
        words("inventory.download"),
        inventory.as_csv(progress.here()),
        "specdec-inventory.csv",
        "text/csv",
        key="inventory-csv",
    )
