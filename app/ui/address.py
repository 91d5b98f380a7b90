"""What the page's address alone knows (which run, which step, what was chosen), over the moment when the browser lags.

Every message of the browser brings the address as it stands there. Streamlit takes it for the truth, also where it was
sent before the server's last change had arrived: on a slow line, or under two quick presses, the change would be lost.
What is written through this module is written again then. Widgets need it not: their own state is the truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

LAG_S = 10.0  # a message that was longer on its way has waited for something else
_KEPT = "address_written"


@dataclass(slots=True)
class _Written:
    value: str | None  # None: the key was taken out
    before: set[str | None] = field(default_factory=set)  # what the browser may still believe
    at: float = 0.0


def put(key: str, value: str | None) -> None:
    """Write the key to the address; None takes it out."""
    catch_up()
    written = _written().setdefault(key, _Written(value))
    written.before.add(st.query_params.get(key))
    written.value, written.at = value, time.monotonic()
    _write(key, value)


def drop(keys: Iterable[str]) -> None:
    """Take the keys out of the address."""
    for key in keys:
        put(key, None)


def catch_up(page: str | None = None) -> None:
    """Write again what a late message of the browser does not know.

    Call it before the address is read. `page` is the page on show, where that is known: another one starts afresh, and
    so does the browser's way back.
    """
    context = get_script_run_ctx()
    turned = page is not None and st.session_state.get("address_page") != page
    if turned:
        st.session_state.address_page = page
    if turned or getattr(context, "is_history_navigation", False):
        _written().clear()
    now = time.monotonic()
    for key, written in list(_written().items()):
        there = st.query_params.get(key)
        if now - written.at > LAG_S or (there != written.value and there not in written.before):
            del _written()[key]
        elif there != written.value:
            _write(key, written.value)


def _written() -> dict[str, _Written]:
    found: dict[str, _Written] = st.session_state.setdefault(_KEPT, {})
    return found


def _write(key: str, value: str | None) -> None:
    if value is None:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
