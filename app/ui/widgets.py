"""Widgets that live in the page's address: one way to pick a name, one to set a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app.lanes import links
from app.text import plain

from .state import state


def pick(
    label: str,
    titles: Mapping[str, str],
    key: str,
    words: str | Callable[[str], str],
    *,
    named: bool = False,
    **more: Any,
) -> str:
    """A selectbox kept in the address by its options' names; Streamlit's own binding would use the titles.

    Streamlit forgets a widget while another page is shown; this restores the last choice. The first option is left
    out of the address, unless it is to be `named`. `words` are the help, or give it for the picked option; `more` is
    passed to the selectbox.
    """
    default = next(iter(titles))
    if (
        st.session_state.get(key) not in titles
    ):  # or a title that it had: Streamlit sends that of a renamed option
        asked = st.query_params.get(key, state.last_picked.get(key, default))
        st.session_state[key] = asked if asked in titles else default
    picked: str = st.selectbox(
        label,
        list(titles),
        format_func=lambda name: titles.get(name, name),
        key=key,
        help=words if isinstance(words, str) else words(st.session_state[key]),
        **more,
    )
    state.last_picked[key] = picked
    if picked == default and not named:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != picked:
        st.query_params[key] = picked
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
    setting: links.Number,
    step: float,
    words: str,
    *,
    disabled: bool = False,
    unset: str = "",
) -> None:
    """A number in the address; `kind` is slider or number. A number may be `unset`: what its empty box then says."""
    cast = int if setting.whole else float
    # Streamlit starts at the minimum by itself, and warns about a default if a page sets the value (a preset does).
    usual: dict[str, Any] = {} if setting.default == setting.low else {"value": cast(setting.default)}
    if setting.unset:
        usual = {"value": None, "placeholder": unset}
    common = {"step": cast(step), "key": setting.key, "bind": "query-params", "help": words, **usual}
    if kind == "slider":
        st.slider(
            label, min_value=cast(setting.low), max_value=cast(setting.high), disabled=disabled, **common
        )
        return
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
