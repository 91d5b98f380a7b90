"""The steps of a lesson: predict, watch, change, explain, the code, check, the lab. One is on screen at a time.

What a prediction is about is not sent to the browser before the prediction is locked in.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from urllib.parse import urlencode

import streamlit as st

from .. import presenter
from ..player import CURSOR
from ..text import plain
from . import pictures, progress, reading
from .lesson import STEPS, Item, Lesson, Picture, Section
from .pictures import Place
from .words import Words


def draw(lesson: Lesson, words: Words) -> None:
    """The step that the address asks for, or the farthest that is open."""
    mine = progress.here().of(lesson.id)
    step = _allowed(st.query_params.get("at", STEPS[0]), mine)
    mine.farthest = max(mine.farthest, STEPS.index(step))
    if step == STEPS[0]:
        st.markdown(f"#### {lesson.sections['hook'].prose}")
    _trail(step, mine, words)
    if step != STEPS[0]:
        _prediction(lesson, mine, step, words)
    _DRAWN[step](lesson, mine, words)
    _moves(lesson, step, mine, words)


def _allowed(asked: str, mine: progress.Progress) -> str:
    """The step asked for; the first one as long as nothing is predicted."""
    return asked if asked in STEPS and mine.predict is not None else STEPS[0]


def go(step: str) -> None:
    """Open a step; the player of another one stood elsewhere."""
    for key in CURSOR:
        st.query_params.pop(key, None)
    st.query_params["at"] = step


def _trail(step: str, mine: progress.Progress, words: Words) -> None:
    """Where in the lesson one stands."""
    here = STEPS.index(step)
    entries = "".join(
        f"<li class='{'here' if at == here else 'been' if at <= mine.farthest else 'ahead'}'"
        f"{' aria-current=step' if at == here else ''}>{escape(words(f'steps.{name}'))}</li>"
        for at, name in enumerate(STEPS)
    )
    st.html(f"<ol class='trail' aria-label='{escape(words('steps.trail'), quote=True)}'>{entries}</ol>")


def _moves(lesson: Lesson, step: str, mine: progress.Progress, words: Words) -> None:
    """Back and on; N and B on the keyboard."""
    here = STEPS.index(step)
    with st.container(horizontal=True, key="course-moves"):
        if here:
            st.button(
                words("steps.back"),
                icon=":material/arrow_back:",
                shortcut="B",
                on_click=go,
                args=(STEPS[here - 1],),
                key="course-back",
            )
        if here + 1 < len(STEPS) and mine.predict is not None:
            st.button(
                words("steps.next", step=words(f"steps.{STEPS[here + 1]}")),
                icon=":material/arrow_forward:",
                shortcut="N",
                type="primary",
                on_click=go,
                args=(STEPS[here + 1],),
                key="course-next",
            )


def _text(section: Section) -> None:
    if section.prose:
        st.markdown(section.prose)


def _picture(picture: Picture | None, lesson: Lesson, step: str, words: Words) -> None:
    if picture is not None:
        with st.container(key=f"course-picture-{step}"):
            pictures.draw(picture, Place(lesson, step, words))


# --- predict -------------------------------------------------------------------------------------------------------


def _predict(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    front = lesson.front.predict
    section = lesson.sections["predict"]
    _picture(front.picture, lesson, "predict", words)
    _text(section)
    if mine.predict is not None:
        _prediction(lesson, mine, "predict", words)
        return
    key = f"course-{lesson.id}-prediction"
    if front.kind == "number":
        st.slider(words("steps.your_number"), front.low, front.high, value=None, step=front.step, key=key)
    elif front.kind == "several":
        st.pills(
            words("steps.your_choices"),
            list(section.items),
            selection_mode="multi",
            format_func=lambda name: section.items[name].text,
            key=key,
        )
    else:
        _options(words("steps.your_prediction"), section, key)
    given = st.session_state.get(key)
    with st.container(horizontal=True):
        st.button(
            words("steps.lock"),
            icon=":material/lock:",
            type="primary",
            disabled=given is None or given == [],
            on_click=_lock,
            args=(lesson, mine, key),
            key="course-lock",
            help=words("steps.lock_help"),
        )
        if presenter.presenting():
            st.button(
                words("steps.reveal"), shortcut="P", on_click=_reveal, args=(mine,), key="course-reveal"
            )


def _lock(lesson: Lesson, mine: progress.Progress, key: str) -> None:
    given = st.session_state.get(key)
    if given is None or mine.predict is not None:
        return
    mine.predict = progress.answer(given, _is_right(lesson, given))
    go("watch")


def _reveal(mine: progress.Progress) -> None:
    """A teacher goes on without a prediction of their own: the class has made theirs aloud."""
    if mine.predict is None:
        mine.predict = progress.answer(None, None)
    go("watch")


def _is_right(lesson: Lesson, given: progress.Given) -> bool:
    if isinstance(given, list):
        return frozenset(given) == lesson.right["predict"]
    if isinstance(given, str):
        return given in lesson.right["predict"]
    assert lesson.answer is not None
    return abs(given - lesson.answer) <= lesson.front.predict.tolerance * abs(lesson.answer)


def _prediction(lesson: Lesson, mine: progress.Progress, step: str, words: Words) -> None:
    """What was predicted, on every later screen; from `change` on beside what came out."""
    found = mine.predict
    if found is None:
        return
    said = words("steps.no_prediction") if found.given is None else plain(_told(lesson, found.given))
    parts = [words("steps.you_said", said=said)]
    if step != "watch":
        parts.append(words("steps.it_was", was=plain(_outcome(lesson))))
    mark = {True: ":green[✓]", False: "✗", None: ""}[found.right] if step != "watch" else ""
    st.markdown(" · ".join([*parts, mark]) if mark else " · ".join(parts))


def _told(lesson: Lesson, given: progress.Given) -> str:
    if isinstance(given, float | int):
        return f"{given:g}"
    items = lesson.sections["predict"].items
    keys = given if isinstance(given, list) else [given]
    return ", ".join(items[key].text for key in keys if key in items)


def _outcome(lesson: Lesson) -> str:
    if lesson.answer is not None:
        return f"{lesson.answer:.3g}"
    items = lesson.sections["predict"].items
    return ", ".join(items[key].text for key in items if key in lesson.right["predict"])


# --- the steps behind the prediction -------------------------------------------------------------------------------


def _watch(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    _text(lesson.sections["watch"])
    _picture(lesson.front.watch, lesson, "watch", words)
    with st.expander(words("steps.outcome"), icon=":material/visibility:"):
        st.markdown(plain(_outcome(lesson)))
        notes = [lesson.sections["predict"].items[key].note for key in sorted(lesson.right["predict"])]
        for note in filter(None, notes):
            st.markdown(note)


def _change(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    _text(lesson.sections["change"])
    _picture(lesson.front.change, lesson, "change", words)


def _explain(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    section = lesson.sections["explain"]
    _text(section)
    with st.container(border=True):
        st.latex(lesson.front.explain.formula)
        _terms(section, words)
    _picture(lesson.front.explain.picture, lesson, "explain", words)


def _terms(section: Section, words: Words) -> None:
    """The formula's terms: each is a button-like word that says what it means on hover, focus or touch."""
    if not section.items:
        return
    entries = "".join(
        f"<span class='term' tabindex='0' aria-describedby='term-{at}'>{escape(key)}"
        f"<span role='tooltip' id='term-{at}'>{escape(item.text)}</span></span>"
        for at, (key, item) in enumerate(section.items.items())
    )
    st.html(f"<p class='terms'><span>{escape(words('steps.terms'))}</span> {entries}</p>")


def _code(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    """The source that runs here, one line of it lit."""
    section, code = lesson.sections["code"], lesson.front.code
    _text(section)
    keys = [key for key in section.items if key in code.lights]
    picked = keys[0]
    if len(keys) > 1:
        picked = (
            st.segmented_control(
                words("steps.line"),
                keys,
                default=keys[0],
                key=f"course-{lesson.id}-light",
                label_visibility="visible",
            )
            or keys[0]
        )
    st.markdown(section.items[picked].text)
    lines = "".join(
        _line(line, code.lights[picked] in line) for line in reading.source_of(code.of).splitlines()
    )
    name = code.of.replace(":", " · ")
    st.html(
        f"<figure class='source'><figcaption>{escape(name)}</figcaption>"
        f"<pre tabindex='0' aria-label='{escape(name, quote=True)}'>{lines}</pre></figure>"
    )


def _line(text: str, lit: bool) -> str:
    shown = escape(text) or " "
    return (
        f"<span class='line lit'><mark>{shown}</mark></span>" if lit else f"<span class='line'>{shown}</span>"
    )


def _check(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    section = lesson.sections["check"]
    _text(section)
    key = f"course-{lesson.id}-check"
    if mine.check is None:
        given = _options(words("steps.your_answer"), section, key)
        st.button(
            words("steps.answer"),
            type="primary",
            disabled=given is None,
            on_click=_judge,
            args=(lesson, mine, key),
            key="course-answer",
        )
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
        st.markdown(words("steps.misconception", name=missed, told=words(f"misconceptions.{missed}")))
    st.markdown(words("steps.right_is", answer=plain(best.text)))
    if best.note:
        st.markdown(best.note)


def _judge(lesson: Lesson, mine: progress.Progress, key: str) -> None:
    given = st.session_state.get(key)
    if given is not None and mine.check is None:
        mine.check = progress.answer(given, given in lesson.right["check"])


def _lab(lesson: Lesson, mine: progress.Progress, words: Words) -> None:
    _text(lesson.sections["lab"])
    lab = lesson.front.lab
    query = urlencode({key: str(value) for key, value in lab.settings.items()})
    st.link_button(
        words(f"steps.open_{lab.page}"),
        f"/{lab.page}{'?' if query else ''}{query}",
        icon=":material/science:",
    )


def _options(label: str, section: Section, key: str) -> str | None:
    """One of a section's options, none chosen at first."""
    picked: str | None = st.radio(
        label, list(section.items), index=None, format_func=lambda name: section.items[name].text, key=key
    )
    return picked


_DRAWN: dict[str, Callable[[Lesson, progress.Progress, Words], None]] = {
    "predict": _predict,
    "watch": _watch,
    "change": _change,
    "explain": _explain,
    "code": _code,
    "check": _check,
    "lab": _lab,
}
