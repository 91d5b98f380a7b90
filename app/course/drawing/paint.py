"""A picture on a Streamlit page: its parts as Streamlit's own elements, and its values in the session's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.charts.chart import Chart
from app.course import pictures
from app.course.files.lesson import Picture
from app.player import CURSOR
from app.running import flow
from app.ui import address, presenter
from app.ui.fragment import fragment

from . import projector
from .scene import (
    Area,
    Button,
    Choice,
    Columns,
    Component,
    Download,
    Fold,
    Html,
    Link,
    Markdown,
    Notice,
    Part,
    Place,
    Values,
)  # fmt: skip

AGAIN_S = 0.5  # while something goes on that a picture shows
RESET = "reset"  # among the values: those that were forgotten, until it is drawn
BUILDER = Path(pictures.__file__).with_name("runs") / "tree_builder.js"

_builder = st.components.v2.component(
    "specdec_tree_builder",
    html='<div class="builder"></div>',
    css=BUILDER.with_suffix(".css").read_text(encoding="utf-8"),
    js=BUILDER.read_text(encoding="utf-8"),
)


def draw(picture: Picture, at: Place) -> None:
    """Draw a picture: its controls, and below them what they show."""
    active: Callable[[], bool] = getattr(pictures.module(picture), "active", lambda: False)
    going = active()

    @fragment(run_every=AGAIN_S if going else None)
    def show() -> None:
        page = _Page(picture, at)
        # in a presentation, a player is above the choice of another recording
        with st.container(key="course-recorded") if picture.picture == "player" else nullcontext():
            page.draw(pictures.controls(picture, at, page.values))
        page.draw(pictures.scene(picture, at, page.values))
        st.session_state.pop(at.key(RESET), None)
        if active() != going:
            st.rerun()

    show()


class _Page:
    """The parts of one picture, and the values as they are while it is drawn."""

    def __init__(self, picture: Picture, at: Place) -> None:
        self.picture, self.at, self.charts = picture, at, 0
        self.values: dict[str, Any] = seen(at)

    def draw(self, parts: Iterable[Part | tuple[Part, ...]]) -> None:
        for part in parts:
            match part:
                case tuple():
                    self.draw(part)
                case Html():
                    st.html(part.html)
                case Markdown(look="code"):
                    st.code(part.text, language=None, wrap_lines=True)
                case Markdown(look="small"):
                    st.caption(part.text)
                case Markdown():
                    st.markdown(part.text, width="content" if part.look == "label" else "stretch")
                case Notice(share=float()):
                    st.progress(part.share or 0.0, part.text)
                case Notice():
                    getattr(st, part.kind)(part.text, icon=_icon(part.icon))
                case Link():
                    st.link_button(part.label, part.address, icon=_icon(part.icon))
                case Chart():
                    projector.draw(part, self.at.key(f"chart-{self.charts}"), self.at.words)
                    self.charts += 1
                case Fold():
                    with st.expander(part.label, icon=_icon(part.icon)):
                        self.draw(part.parts)
                case Columns():
                    self.columns(part)
                case Component():
                    self.component(part)
                case _:
                    self.control(part, self.at.key(part.name))

    def columns(self, part: Columns) -> None:
        if part.widths:
            places: Sequence[Any] = st.columns(part.widths, gap=part.gap, vertical_alignment=part.align)
            for place, inside in zip(places, part.parts, strict=True):
                with place:
                    self.draw((inside,))
        elif part.narrowest:
            with st.grid("auto", min_column_width=part.narrowest, gap=part.gap):
                for inside in part.parts:
                    with st.container():
                        self.draw((inside,))
        else:
            with st.container(horizontal=True, gap=part.gap, vertical_alignment=part.align):
                self.draw(part.parts)

    def component(self, part: Component) -> None:
        key, shown = self.at.key(part.name), dict(part.data)
        if part.module == "tree":
            _builder(key=key, data=shown, on_act_change=partial(self.act, part.name))
            return
        for name, value in shown.pop("cursor").items():
            if value is not None and name not in st.query_params:
                address.put(name, str(value))
        flow.draw(**shown, present=presenter.presenting(), key=key)

    def control(self, part: Choice | Button | Area | Download, key: str) -> None:
        match part:
            case Choice():
                self.values[part.name] = self.choice(part, key)
            case Button():
                st.button(
                    part.label, icon=_icon(part.icon), disabled=part.off, help=part.help, key=key,
                    on_click=self.act, args=(part.name, part.sets),
                )  # fmt: skip
            case Area():
                anew = part.name in self.values.get(RESET, ())
                if anew:
                    st.session_state[key] = part.start
                self.values[part.name] = st.text_area(
                    part.label, "" if anew else part.start, height=part.height, max_chars=part.most, help=part.help,
                    placeholder=part.placeholder, key=key, on_change=self.act, args=(part.name,),
                )  # fmt: skip
            case Download():
                st.download_button(
                    part.label, part.data, part.file, part.mime, icon=":material/download:", disabled=part.off,
                    on_click="ignore", key=key, help=part.help,
                )  # fmt: skip

    def choice(self, part: Choice, key: str) -> Any:
        """What is chosen; a control that has a value that it cannot have is moved."""
        value, start = part.of(self.values), part.start
        if st.session_state.get(key, value) != value:
            st.session_state[key], start = value, None
        given: dict[str, Any] = {
            "format_func": dict(zip(part.options, part.names, strict=True)).__getitem__, "key": key,
            "disabled": part.off, "help": part.help,
            "on_change": partial(self.reset, part.resets) if part.resets else None,
        }  # fmt: skip
        if part.look == "slider":
            return st.select_slider(part.label, part.options, start, width=part.width or "stretch", **given)
        if part.look == "list":
            at = 0 if start is None else list(part.options).index(start)
            return st.selectbox(part.label, part.options, at, **given)
        return st.segmented_control(part.label, part.options, default=start, required=True, **given)

    def act(self, name: str, sets: Values | None = None) -> None:
        """Set what a press of a button sets, or what the picture makes of something else that was done."""
        if sets is None:
            done = st.session_state.get(self.at.key(name))
            done = done.get("act") if isinstance(done, Mapping) else getattr(done, "act", done)
            sets = pictures.acted(self.picture, self.at, seen(self.at), name, done)
        for key, value in sets.items():
            st.session_state[self.at.key(key)] = value

    def reset(self, names: Sequence[str]) -> None:
        """Forget these values, and a player's cursor: a browser keeps what is typed, so areas are filled anew."""
        for name in names:
            st.session_state.pop(self.at.key(name), None)
        st.session_state[self.at.key(RESET)] = names
        address.drop(CURSOR if names == CURSOR else ())


def _icon(name: str) -> str | None:
    return f":material/{name}:" if name else None


def seen(at: Place) -> dict[str, Any]:
    """The picture's values in the session's state."""
    begin = at.key("")
    return {
        key.removeprefix(begin): value
        for key, value in st.session_state.items()
        if isinstance(key, str) and key.startswith(begin)
    }
