"""Options of proposers, rules and length policies: widgets from the core's declarations, kept in the page's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.lanes import links
from app.text import plain
from app.ui.widgets import number_box, switch
from specdec_core.foundations.options import OptionField, fields

from . import lane_state
from .lane_state import begins, left_out, option_key, shown

SLIDER_STEPS = 200  # a number with more values than this gets a text box


def draw(prefix: str, kind: Any, form: str = "") -> None:
    """The widgets of one kind's options. Their values stay while another kind is chosen.

    They are kept in the address, except those of a lane's `form`, which has its own place there.
    """
    known, preferred = fields(kind.Options), begins(prefix, kind)
    for field in known.values():
        key = option_key(prefix, kind.name, field.name, form)
        if key not in st.session_state:
            st.session_state[key] = shown(field, preferred.get(field.name, field.default))
        _widget(field, kind, key)
    if not form:
        _keep_in_address(prefix, kind, known)


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
        lambda typed: lane_state.refusal(field, owner, typed),
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


def _keep_in_address(prefix: str, kind: Any, known: Mapping[str, OptionField]) -> None:
    wanted, omitted = {}, left_out(prefix, kind)
    for field in known.values():
        held = st.session_state[option_key(prefix, kind.name, field.name)]
        if held is not None and held != shown(field, omitted.get(field.name, field.default)):
            text = held if field.kind == "list" else field.write(held)
            if len(text) <= links.MAX_PROMPT_IN_LINK:
                wanted[f"{prefix}.{field.name}"] = text
    for address in list(st.query_params):
        if address.startswith(f"{prefix}.") and address not in wanted:
            del st.query_params[address]
    for address, text in wanted.items():
        if st.query_params.get(address) != text:
            st.query_params[address] = text
