"""Widgets of a page's settings: one way to pick a name, one to set a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import streamlit as st

from app.lanes.fields import NumberField
from app.text import plain

from .state import state


def pick(
    label: str, titles: Mapping[str, str], key: str, words: str | Callable[[str], str], **more: Any
) -> str:
    """A selectbox; returns the name of the picked option.

    `words` are the help, or give it for the picked option; `more` is passed to the selectbox.
    """
    if (
        st.session_state.get(key) not in titles
    ):  # also where Streamlit sends a title that the option had before
        last = state.last_picked.get(key)
        st.session_state[key] = last if last in titles else next(iter(titles))
    picked: str = st.selectbox(
        label,
        list(titles),
        format_func=lambda name: titles.get(name, name),
        key=key,
        persist_state="session",
        help=words if isinstance(words, str) else words(st.session_state[key]),
        **more,
    )
    state.last_picked[key] = picked
    return picked


def switch(label: str, words: str | None, **more: Any) -> bool:
    """A switch with its help beside it: Streamlit's own is inside the label, so that a tap on it flips the switch.

    `words` are the help; `more` is passed to the toggle.
    """
    with st.container(horizontal=True, gap="xxsmall", vertical_alignment="center"):
        on: bool = st.toggle(label, width="content", **more)
        if words:
            st.markdown("", help=words, width="content")
    return on


def number(
    kind: str,
    label: str,
    setting: NumberField,
    step: float,
    words: str,
    *,
    disabled: bool = False,
    unset: str = "",
    key: str = "",
    persist: Literal["page", "session"] = "session",
) -> None:
    """A number of the page's table; `kind` is slider or number. It may be `unset`: what its empty box then says."""
    cast = int if setting.whole else float
    key = key or setting.key
    common: dict[str, Any] = {"step": cast(step), "key": key, "persist_state": persist, "help": words}
    if kind == "slider":
        low, high = cast(setting.low), cast(setting.high)
        st.slider(label, min_value=low, max_value=high, disabled=disabled, **common)
        return
    if setting.unset:
        common |= {"value": None, "placeholder": unset}
    number_box(label, setting.refusal, disabled=disabled, **common)


def number_box(label: str, refusal: Callable[[Any], str | None], **more: Any) -> Any:
    """A number box, and below it the `refusal` of a number that cannot be used; returns the number.

    The box has no bounds: given them, it keeps what lies outside in the browser, and the page goes on with the number
    before. So whoever uses the number has to check it. `more` is passed to the box.
    """
    typed = st.number_input(label, **more)
    if why_not := refusal(typed):
        st.markdown(f":red[:material/block: {plain(why_not)}]")
    return typed
