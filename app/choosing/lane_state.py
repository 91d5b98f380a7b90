"""A lane as held by a page's widgets.

The widgets of the lab's lane have plain keys; those of a lane's form in the comparison have the same keys prefixed with
the form's name. Option widgets keep their values while another owner of options is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.lanes.lane import KEYS, TABLES, Lane
from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.options import OptionField, fields

from . import current


def key(setting: str, form: str = "") -> str:
    """The key of the widget for a lane's setting."""
    return f"{form}.{setting}" if form else setting


def option_key(prefix: str, owner: str, option: str, form: str = "") -> str:
    """The key of the widget for an option."""
    return key(f"{prefix}.{owner}.{option}", form)


def left_out(prefix: str, owner: Any) -> Mapping[str, Any]:
    """What the lab's address means that leaves out an owner's options, instead of their defaults."""
    return current.options(owner.name) if prefix == "o" else {}


def begins(prefix: str, owner: Any) -> Mapping[str, Any]:
    """The values that an owner's options start with, instead of their defaults."""
    return current.begins(owner.name) if prefix == "o" else {}


def is_drawn(form: str) -> bool:
    """Whether the widgets of that form hold a lane."""
    return key(KEYS[0], form) in st.session_state


def fill(lane: Lane, form: str) -> None:
    """Initialise widgets without a value from the lane."""
    for setting in KEYS:
        if key(setting, form) not in st.session_state:
            st.session_state[key(setting, form)] = getattr(lane, setting)
    for prefix in TABLES:
        fill_options(prefix, *lane.owner(prefix), form)


def fill_options(prefix: str, owner: Any, values: Mapping[str, Any], form: str) -> None:
    """The same for one owner's options; those missing in `values` get their defaults."""
    for field in fields(owner.Options).values():
        place = option_key(prefix, owner.name, field.name, form)
        if place not in st.session_state:
            st.session_state[place] = shown(field, values.get(field.name, field.default))


def put(lane: Lane, named: Iterable[str]) -> None:
    """Copy the options in an address into the lab's widgets."""
    for address in named:
        prefix, _, option = address.partition(".")
        if prefix not in TABLES:
            continue
        owner, values = lane.owner(prefix)
        if field := fields(owner.Options).get(option):
            place = option_key(prefix, owner.name, option)
            st.session_state[place] = shown(field, values.get(option, field.default))


def read(form: str = "", before: Lane | None = None) -> Lane:
    """The lane that the widgets hold.

    Given the previous lane `before`, an option that cannot be read keeps its value from there, and the widgets of a new
    owner's options start anew.

    Raises:
        SettingsError: one sentence about a text or number that is not a value; not raised if `before` is given.
    """
    otherwise = before or Lane()
    lane = replace(
        otherwise,
        **{name: st.session_state.get(key(name, form), getattr(otherwise, name)) for name in KEYS},
    )
    found: dict[str, Any] = {}
    for prefix, table in TABLES.items():
        owner, values = lane.owner(prefix)
        if before is None:
            found[table.options] = options(prefix, owner, form)
            continue
        if owner is not before.owner(prefix)[0]:
            values = begins(prefix, owner)
        fill_options(prefix, owner, values, form)
        try:
            found[table.options] = options(prefix, owner, form)
        except SettingsError:
            found[table.options] = dict(values)
    return replace(lane, **found)


def options(prefix: str, owner: Any, form: str = "") -> dict[str, Any]:
    """The options of an owner that differ from their defaults.

    Raises:
        SettingsError: one sentence about a text or number that is not a value.
    """
    values, preferred = {}, begins(prefix, owner)
    for field in fields(owner.Options).values():
        place = option_key(prefix, owner.name, field.name, form)
        held = st.session_state.get(place, shown(field, preferred.get(field.name, field.default)))
        if held is None or held == "":
            continue
        if why_not := refusal(field, owner, held):
            raise SettingsError(why_not)
        value = field.read(held) if field.kind == "list" else held
        if value != field.default:
            values[field.name] = value
    return values


def refusal(field: OptionField, owner: Any, held: Any) -> str | None:
    """Why an owner's option cannot have what its widget holds; None if it can."""
    if held is None or field.kind not in ("list", "whole", "number"):
        return None
    text = held if field.kind == "list" else field.write(held)
    try:
        field.read(text)
    except ValueError:
        got = f"“{text[:40]}”" if field.kind == "list" else text
        return f"{field.title} ({owner.title}) has to be {field.wanted}, not {got}."
    return None


def shown(field: OptionField, value: Any) -> Any:
    """A value in the form its widget uses."""
    if value is None:
        return "" if field.kind in ("list", "text") else None
    return json.dumps(value) if field.kind == "list" else float(value) if field.kind == "number" else value
