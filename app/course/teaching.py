"""The teacher's link: which lessons in which order, which parts are hidden, and whether it opens as a presentation.

`?order=race,coin&hide=rail,code&present=1`. Hiding is no protection: anyone can change a link.
"""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from app.ui import presenter, quirks
from app.ui.fragment import fragment

from . import languages
from .files import reading
from .files.lesson import STEPS
from .files.words import Words

# Without the gap between elements that Streamlit's margin below a heading cancels; and language and way out next to the
# title, with which they scroll away.
HEADS = """
:--page h1 { font-size: 1.25rem !important; padding: 0.3rem 11.8rem 0.25rem 0 !important; }
:--markdown:has(:is(h1, h2, h3, h4, h5)) { margin-bottom: 0 !important; }
/* As Streamlit sets it, which keeps the size of before where the text has become smaller since. */
.js-plotly-plot :is(.xtitle, .ytitle) { font-size: 0.875rem !important; }
:--page h4 { font-size: 1rem !important; padding: 0.2rem 0 !important; }
:is(.st-key-course-asked, .st-key-course-text) p { font-size: 0.9rem; line-height: 1.35; }
:--layout:has(> .st-key-course-recorded) { order: 1; } /* the player before the choice of another recording */
/* The picture first, then the text about it; all in one window (frame.js). */
:--layout:has(> :is(.st-key-course-text, .st-key-course-formula)) { order: 1; }
:--layout:has(> .st-key-course-bar) { order: 2; }
[class*="st-key-course-picture-"] > * { zoom: var(--drawn-share, 1); }
/* A chart is lower then, and as wide as before: Streamlit draws it for the place that it has on the screen. */
[class*="st-key-course-picture-"] .stPlotlyChart { zoom: calc(1 / var(--drawn-share, 1)); }
:--layout:has(> .st-key-course-bar) { padding: 0.15rem 0 !important; }
[class*="st-key-course-picture-"] { --stage: calc(100dvh - 10.5rem); } /* what title, steps, text and bar leave */
.st-key-presenter {
  position: relative; inset: auto; z-index: 1;
  width: 100% !important; flex: 0 0 0px; min-height: 0;
  flex-direction: row; align-items: flex-start; justify-content: flex-end;
}
.st-key-presenter > * { flex: none; width: auto !important; }
.st-key-course-language button { min-height: 0; padding: 0 0.4rem; }
"""
# steps; a lesson cannot do without predict and watch
MAY_HIDE = ("change", "explain", "code", "check", "lab")
PARTS = ("rail", *MAY_HIDE, "home")
# Choices of lessons for a class, by their names in the catalogue.
SHORT = ("race", "weights", "draft-verify", "coin", "length", "fails")
PRESETS = {
    "brief": ("race", "draft-verify"),
    "short": SHORT,
    "double": (
        *SHORT[:2],
        "tokens",
        *SHORT[2:4],
        "lossless",
        "length",
        "draft-model",
        "eagle",
        "trees",
        "fails",
    ),
}


def hidden() -> set[str]:
    """What the address hides; a presentation has no rail."""
    return (_named("hide") & set(PARTS)) | ({"rail", "home"} if presenter.presenting() else set())


def steps() -> tuple[str, ...]:
    """The remaining steps of a lesson."""
    away = hidden()
    return tuple(step for step in STEPS if step not in away)


def problems(words: Words) -> list[str]:
    """A sentence for each part, lesson or language that a link names and the course does not have."""
    found = []
    if strange := _named("hide") - set(PARTS):
        found.append(words("teaching.strange", name=min(strange)[:40], parts=", ".join(PARTS)))
    if strange := _named("order") - {key for _, key, _, _ in reading.titles(words.language)}:
        found.append(words("teaching.strange_lesson", name=min(strange)[:40]))
    if (asked := st.query_params.get("lang", words.language)) != words.language:
        found.append(
            words("teaching.strange_language", name=asked[:40], names=", ".join(reading.languages()))
        )
    return found


def _named(key: str) -> set[str]:
    return set(filter(None, st.query_params.get(key, "").replace(" ", "").split(",")))


def dress(words: Words) -> None:
    """In a presentation large type, no frame, and the way out."""
    with st.container(key="presenter"):
        css = ""
        if presenter.presenting():
            css = f"html {{ font-size: calc({presenter.LARGE_REM}px * var(--text-share, 1)) !important; }}\n"
            css += presenter.CHROME + HEADS
        st.html(quirks.style(css))
        if "rail" in hidden():
            languages.choice(words, short=presenter.presenting())
        if not presenter.presenting():
            return
        st.button(
            words("teaching.leave"),
            key="leave",
            icon=":material/close_fullscreen:",
            shortcut="Escape",
            on_click=presenter.leave,
            type="tertiary",
            help=words("teaching.leave_help"),
        )


def builder(titles: dict[str, str], minutes: dict[str, int], words: Words) -> None:
    """Choose lessons, hidden parts and how it opens; shows the link. `minutes` are those of the presets."""
    with st.expander(words("teaching.own"), icon=":material/co_present:"):

        @fragment
        def show() -> None:
            st.markdown(words("teaching.about"))
            with st.container(horizontal=True):
                for name, lessons in PRESETS.items():
                    st.button(
                        words(f"teaching.{name}", minutes=minutes[name]),
                        on_click=st.session_state.__setitem__,
                        args=("teach-order", [key for key in lessons if key in titles]),
                        key=f"teach-{name}",
                    )
            order = st.multiselect(
                words("teaching.order"),
                list(titles),
                format_func=titles.__getitem__,
                placeholder=words("teaching.all"),
                key="teach-order",
            )
            away = st.pills(
                words("teaching.hide"),
                list(PARTS),
                selection_mode="multi",
                format_func=lambda part: words(f"teaching.part_{part}"),
                key="teach-hide",
            )
            present = st.toggle(words("teaching.present"), key="teach-present")
            st.code(link(order, away, present, words), language=None, wrap_lines=True)
            st.caption(words("teaching.open"))
            st.markdown(words("teaching.homework"))

        show()


def link(order: list[str], away: list[str], present: bool, words: Words) -> str:
    """The address of the course in this language and that order, without those parts."""
    query = {}
    if "lang" in st.query_params or words.language != reading.languages()[0]:
        query["lang"] = words.language
    if order:
        query |= {"order": ",".join(order), "lesson": order[0]}
    if away:
        query["hide"] = ",".join(part for part in PARTS if part in away)
    if present:
        query["present"] = "1"
    address = (st.context.url or "").split("?")[0].rstrip("/")
    return f"{address}{'?' if query else ''}{urlencode(query, safe=',')}"
