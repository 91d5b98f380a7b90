"""Options of proposers, rules and length policies: widgets from the core's declarations, kept in the page's address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.lanes import links
from app.text import plain
from specdec_core.errors import SettingsError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.options import OptionField, fields
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES

from . import current

# Prefix of the options in an address → the setting that names their owner, its default, and the owners.
TABLES: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "o": ("proposer", "draft-model", PROPOSERS),
    "r": ("rule", "speculative-sampling", RULES),
    "l": ("length", "fixed", LENGTH_POLICIES),
}
SLIDER_STEPS = 200  # a number with more values than this is typed


def start_from_address(params: Mapping[str, str]) -> list[str]:
    """Take the options from a link into the session's state; a sentence for each that cannot be used."""
    owners = {}
    for prefix, (setting, default, table) in TABLES.items():
        if prefix == "o":
            default = next(iter(current.guessers()), default)
        kind = table[params.get(setting, default) if params.get(setting) in table else default]
        owners[prefix] = links.Owner(kind.name, kind.title, fields(kind.Options))
    found, complaints = links.options(params, owners)
    for address, value in found.items():
        prefix, _, name = address.partition(".")
        owner = owners[prefix]
        st.session_state[_key(prefix, owner.name, name)] = _shown(owner.fields[name], value)
    return complaints


def draw(prefix: str, kind: Any, lane: str = "") -> None:
    """The widgets of one kind's options. What they hold stays while another kind is chosen.

    The address keeps them, unless they are a `lane`'s, which has its own place there.
    """
    known, preferred = fields(kind.Options), usual(prefix, kind)
    for field in known.values():
        key = _key(prefix, kind.name, field.name, lane)
        if key not in st.session_state:
            st.session_state[key] = _shown(field, preferred.get(field.name, field.default))
        _widget(field, key)
    if not lane:
        _keep_in_address(prefix, kind, known)


def put(prefix: str, kind: Any, values: Mapping[str, Any], lane: str) -> None:
    """Fill the widgets of a lane's options that do not hold anything yet; what `values` leaves out is as usual."""
    for field in fields(kind.Options).values():
        key = _key(prefix, kind.name, field.name, lane)
        if key not in st.session_state:
            st.session_state[key] = _shown(field, values.get(field.name, field.default))


def chosen(prefix: str, kind: Any, lane: str = "") -> dict[str, Any]:
    """The options that differ from their defaults.

    Raises:
        SettingsError: one sentence about a text that is no value.
    """
    values, preferred = {}, usual(prefix, kind)
    for field in fields(kind.Options).values():
        key = _key(prefix, kind.name, field.name, lane)
        shown = st.session_state.get(key, _shown(field, preferred.get(field.name, field.default)))
        if shown is None or shown == "":
            continue
        try:
            value = field.read(shown) if field.kind == "list" else shown
        except ValueError:
            raise SettingsError(
                f"{field.title} ({kind.title}) has to be {field.wanted}, got “{shown[:40]}”."
            ) from None
        if value != field.default:
            values[field.name] = value
    return values


def usual(prefix: str, kind: Any) -> Mapping[str, Any]:
    """What the chosen models use instead of a proposer's defaults."""
    return current.options(kind.name) if prefix == "o" else {}


def _key(prefix: str, owner: str, name: str, lane: str = "") -> str:
    return f"{lane}{'.' if lane else ''}{prefix}.{owner}.{name}"


def _shown(field: OptionField, value: Any) -> Any:
    """A value as its widget holds it."""
    if value is None:
        return "" if field.kind in ("list", "text") else None
    return json.dumps(value) if field.kind == "list" else float(value) if field.kind == "number" else value


def _widget(field: OptionField, key: str) -> None:
    common: dict[str, Any] = {"key": key, "help": plain(field.help) or None, "persist_state": "page"}
    if field.kind == "switch":
        st.toggle(field.title, **common)
    elif field.kind == "choice":
        st.selectbox(field.title, field.choices, format_func=_worded, **common)
    elif field.kind == "list":
        st.text_area(field.title, height=68, **common)
    elif field.kind == "text":
        st.text_input(field.title, **common)
    else:
        _number(field, common)


def _number(field: OptionField, common: dict[str, Any]) -> None:
    cast = int if field.kind == "whole" else float
    low, high = (None if bound is None else cast(bound) for bound in (field.low, field.high))
    step = cast(1 if cast is int else _step(field))
    if _slides(field, step):
        st.slider(field.title, min_value=low, max_value=high, step=step, **common)
        return
    st.number_input(
        field.title,
        min_value=low,
        max_value=high,
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
    """Whether a slider can hold every value: both bounds belong to the range, and its steps are fine enough."""
    if field.low is None or field.high is None or field.low_open or field.high_open or field.default is None:
        return False
    steps = field.default / step
    return abs(steps - round(steps)) < 1e-6 and (field.high - field.low) / step <= SLIDER_STEPS


def _worded(value: Any) -> str:
    return str(value).replace("-", " ")


def _keep_in_address(prefix: str, kind: Any, known: Mapping[str, OptionField]) -> None:
    wanted, preferred = {}, usual(prefix, kind)
    for field in known.values():
        shown = st.session_state[_key(prefix, kind.name, field.name)]
        if shown is not None and shown != _shown(field, preferred.get(field.name, field.default)):
            text = shown if field.kind == "list" else field.write(shown)
            if len(text) <= links.MAX_PROMPT_IN_LINK:
                wanted[f"{prefix}.{field.name}"] = text
    for address in list(st.query_params):
        if address.startswith(f"{prefix}.") and address not in wanted:
            del st.query_params[address]
    for address, text in wanted.items():
        if st.query_params.get(address) != text:
            st.query_params[address] = text
