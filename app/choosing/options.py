"""Options of proposers, rules and length policies: widgets from the core's declarations."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.text import plain
from app.ui.widgets import number_box, switch
from specdec_core.foundations.options import OptionField, fields

from . import form as form_state

SLIDER_STEPS = 200  # a number with more values than this gets a text box


def draw(prefix: str, owner: Any, form: str = "") -> None:
    """The widgets of one owner's options, in a lane's `form`. Their values stay while another owner is chosen."""
    for field in fields(owner.Options).values():
        key = form_state.option_key(prefix, owner.name, field.name, form)
        if key not in st.session_state:
            begins = form_state.begins(prefix, owner)
            st.session_state[key] = form_state.shown(field, begins.get(field.name, field.default))
        _widget(field, owner, key)


def _widget(field: OptionField, owner: Any, key: str) -> None:
    common: dict[str, Any] = {"key": key, "help": plain(field.help) or None, "persist_state": "page"}
    if field.kind == "switch":
        switch(field.title, common.pop("help"), **common)
    elif field.kind == "choice":
        st.selectbox(field.title, field.choices, format_func=_worded, **common)
    elif field.kind == "list":
        st.text_area(field.title, height=68, **common)
    elif field.kind == "text":
        st.text_input(field.title, **common)
    else:
        _number(field, owner, common)


def _number(field: OptionField, owner: Any, common: dict[str, Any]) -> None:
    cast = int if field.kind == "whole" else float
    step = cast(1 if cast is int else _step(field))
    if _slides(field, step):
        low, high = (None if bound is None else cast(bound) for bound in (field.low, field.high))
        st.slider(field.title, min_value=low, max_value=high, step=step, **common)
        return
    number_box(
        field.title,
        lambda typed: form_state.refusal(field, owner, typed),
        step=step,
        format=None if cast is int else "%g",
        placeholder="chosen automatically"
        if field.default is None
        else f"{field.write(field.default)} if empty",
        **common,
    )


def _step(field: OptionField) -> float:
    return 0.01 if field.high is not None and field.high <= 2 else 0.1


def _slides(field: OptionField, step: float) -> bool:
    """Whether a slider can represent every value: closed bounds, and fine enough steps."""
    if field.low is None or field.high is None or field.low_open or field.high_open or field.default is None:
        return False
    steps = field.default / step
    return abs(steps - round(steps)) < 1e-6 and (field.high - field.low) / step <= SLIDER_STEPS


def _worded(value: Any) -> str:
    return str(value).replace("-", " ")
