"""The steps of a lesson: predict, watch, change, explain, the code, check, the lab. One is on screen at a time.

A prediction's outcome is not sent to the browser before the prediction is locked in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape

import streamlit as st

from app.player import CURSOR
from app.text import plain
from app.ui import address, presenter

from . import prediction, progress, shuffle, teaching
from .drawing import paint
from .drawing.scene import Place
from .files import reading
from .files.lesson import STEPS, Item, Lesson, Picture, Section
from .files.words import Words


def draw(
    lesson: Lesson, words: Words, onward: Callable[[bool], None], before: Callable[[], None] | None
) -> None:
    """The step that the address requests, or the farthest open one.

    `onward` draws the way to the next lesson, which N leads if it is given True; `before` opens the lesson before this
    one, if there is one.
    """
    mine = progress.here().of(lesson.id)
    shown = teaching.steps()
    asked = st.query_params.get("at", STEPS[0])
    # Reloaded, the class has predicted already; and who leaves a presentation stays where it was.
    if asked in shown[1:] and (presenter.presenting() or progress.presented(lesson.id)):
        prediction.reveal(mine)
    step = _allowed(asked, mine, shown)
    mine.farthest = max(mine.farthest, STEPS.index(step))
    # At the same place in every step, or two would be visible during the change.
    _trail(step, mine, shown, words)
    if step == STEPS[0]:
        st.markdown(f"#### {lesson.sections['hook'].prose}")
    else:
        prediction.strip(lesson, mine, words, open_end=step == "watch")
    _DRAWN[step](lesson, mine, words)
    # It stays at the bottom of the window, so that the way on is in sight on every screen.
    with st.container(horizontal=True, key="course-bar"):
        if step == "predict":
            prediction.lock(lesson, mine, words, go)
        elif step == "check":
            _answer(lesson, mine, words)
        _moves(step, mine, shown, before, words)
        last = step == shown[-1]
        if mine.done or last:
            onward(last)


def _allowed(asked: str, mine: progress.LessonProgress, shown: Sequence[str]) -> str:
    """The requested step; the first one until there is a prediction."""
    return asked if asked in shown and mine.predict is not None else STEPS[0]


def go(step: str) -> None:
    """Open a step; the old step's player position is dropped."""
    address.drop(CURSOR)
    address.put("at", step)


def _trail(step: str, mine: progress.LessonProgress, shown: Sequence[str], words: Words) -> None:
    """The position within the lesson; a step that is open can be gone to."""
    with st.container(horizontal=True, gap="small", key="course-trail"):
        for name in shown:
            been = STEPS.index(name) <= mine.farthest
            if name == step:
                said = escape(words(f"steps.{name}"))
                st.html(f"<p class='trail'><span aria-current='step'>{said}</span></p>", width="content")
            else:
                st.button(
                    f"{'●' if been else '○'} {words(f'steps.{name}')}",
                    type="tertiary",
                    disabled=mine.predict is None,
                    on_click=go,
                    args=(name,),
                    key=f"course-to-{name}",
                )


def _moves(
    step: str,
    mine: progress.LessonProgress,
    shown: Sequence[str],
    before: Callable[[], None] | None,
    words: Words,
) -> None:
    """Back and next; B and N on the keyboard. Back from the first step leads to the lesson before."""
    here = shown.index(step)
    back = partial(go, shown[here - 1]) if here else before
    if back is not None:
        st.button(
            words("steps.back"),
            icon=":material/arrow_back:",
            shortcut="B",
            on_click=back,
            key="course-back",
        )
    if here + 1 < len(shown) and mine.predict is not None:
        asked = step == "check" and mine.check is None
        st.button(
            words("steps.next", step=words(f"steps.{shown[here + 1]}")),
            icon=":material/arrow_forward:",
            shortcut="N",
            type="secondary" if asked else "primary",
            on_click=go,
            args=(shown[here + 1],),
            key="course-next",
        )


def _text(section: Section) -> None:
    if section.prose:
        with st.container(key="course-text"):
            st.markdown(section.prose)


def _picture(picture: Picture | None, lesson: Lesson, step: str, words: Words) -> None:
    if picture is not None:
        with st.container(key=f"course-picture-{step}"):
            paint.draw(picture, Place(lesson.id, step, words))


def _predict(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    # Side by side where there is room: what is looked at, and what is asked.
    with st.container(horizontal=True, gap="medium", key="course-asked"):
        if lesson.front.predict.picture is not None:
            with st.container(key="course-seen"):
                _picture(lesson.front.predict.picture, lesson, "predict", words)
        with st.container(key="course-question"):
            _text(lesson.sections["predict"])
            prediction.ask(lesson, mine, words)


def _watch(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    _text(lesson.sections["watch"])
    _picture(lesson.front.watch, lesson, "watch", words)
    with st.expander(words("steps.outcome"), icon=":material/visibility:"):
        st.markdown(plain(prediction.outcome(lesson, words)))
        notes = [lesson.sections["predict"].items[key].note for key in sorted(lesson.right["predict"])]
        for note in filter(None, notes):
            st.markdown(note)


def _change(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    _text(lesson.sections["change"])
    _picture(lesson.front.change, lesson, "change", words)


def _explain(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    section = lesson.sections["explain"]
    _text(section)
    with st.container(border=True, key="course-formula"):
        st.latex(lesson.front.explain.formula)
        _terms(section, words)
    _picture(lesson.front.explain.picture, lesson, "explain", words)


def _terms(section: Section, words: Words) -> None:
    """The formula's terms: each is a button-like word that explains itself on hover, focus or touch."""
    if not section.items:
        return
    entries = "".join(
        f"<span class='term' tabindex='0' aria-describedby='term-{at}'>{escape(key)}"
        f"<span role='tooltip' id='term-{at}'>{escape(item.text)}</span></span>"
        for at, (key, item) in enumerate(section.items.items())
    )
    st.html(f"<p class='terms'><span>{escape(words('steps.terms'))}</span> {entries}</p>")


def _code(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    """The source that runs here, one line of it highlighted."""
    section, code = lesson.sections["code"], lesson.front.code
    _text(section)
    keys = [key for key in section.items if key in code.lights]
    picked = keys[0]
    if len(keys) > 1:
        picked = st.segmented_control(
            words("steps.line"),
            keys,
            default=keys[0],
            required=True,
            key=f"course-{lesson.id}-light",
            label_visibility="visible",
        )
    st.markdown(section.items[picked].text)
    lines = "".join(
        _line(line, code.lights[picked] in line) for line in reading.source_of(code.of).splitlines()
    )
    name = code.of.replace(":", " · ")
    st.html(
        f"<figure class='source' translate='no'><figcaption>{escape(name)}</figcaption>"
        f"<pre tabindex='0' aria-label='{escape(name, quote=True)}'>{lines}</pre></figure>"
    )


def _line(text: str, lit: bool) -> str:
    shown = escape(text) or " "
    return (
        f"<span class='line lit'><mark>{shown}</mark></span>" if lit else f"<span class='line'>{shown}</span>"
    )


def _check(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    section = lesson.sections["check"]
    _text(section)
    key = f"course-{lesson.id}-check"
    if mine.check is None:
        order = shuffle.mine(section.items, f"{lesson.id}-check")
        prediction.options(words("steps.your_answer"), section, order, key)
        return
    assert isinstance(mine.check.given, str)
    chosen = section.items.get(mine.check.given, Item("—"))
    best = section.items[next(iter(lesson.right["check"]))]
    st.markdown(words("steps.you_answered", said=plain(chosen.text)))
    if mine.check.right:
        st.success(best.note or words("steps.right"), icon=":material/check_circle:")
        return
    st.error(chosen.note or words("steps.wrong"), icon=":material/cancel:")
    if missed := lesson.front.check.mistakes.get(mine.check.given):
        st.markdown(words("steps.misconception", text=words(f"misconceptions.{missed}")))
    st.markdown(words("steps.right_is", answer=plain(best.text)))
    if best.note:
        st.markdown(best.note)


def _answer(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    key = f"course-{lesson.id}-check"
    if mine.check is None:
        st.button(
            words("steps.answer"),
            type="primary",
            disabled=st.session_state.get(key) is None,
            on_click=_judge,
            args=(lesson, mine, key),
            key="course-answer",
        )


def _judge(lesson: Lesson, mine: progress.LessonProgress, key: str) -> None:
    given = st.session_state.get(key)
    if given is not None and mine.check is None:
        mine.check = progress.answer(given, lesson.is_right("check", given))


def _lab(lesson: Lesson, mine: progress.LessonProgress, words: Words) -> None:
    _text(lesson.sections["lab"])
    lab = lesson.front.lab
    st.link_button(
        words(f"steps.open_{lab.page}"),
        address.href("" if lab.page == "lab" else lab.page, **lab.settings),
        icon=":material/science:",
    )


_DRAWN: dict[str, Callable[[Lesson, progress.LessonProgress, Words], None]] = {
    "predict": _predict,
    "watch": _watch,
    "change": _change,
    "explain": _explain,
    "code": _code,
    "check": _check,
    "lab": _lab,
}
