"""What the page's address alone knows: which run, which step, what was chosen.

It is written through this module, so that it holds although the browser lags (quirks.py). Widgets need it not: their
own state is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from .quirks import LaggingAddress

_KEPT = "address_written"


def put(key: str, value: str | None) -> None:
    """Write the key to the address; None takes it out."""
    catch_up()
    _kept().put(key, value)


def drop(keys: Iterable[str]) -> None:
    """Take the keys out of the address."""
    for key in keys:
        put(key, None)


def catch_up(page: str | None = None) -> None:
    """Write again what a late message of the browser does not know.

    Call it before the address is read. `page` is the page on show, where that is known: another one starts afresh, and
    so does the browser's way back.
    """
    turned = page is not None and st.session_state.get("address_page") != page
    if turned:
        st.session_state.address_page = page
    _kept().catch_up(afresh=turned)


def _kept() -> LaggingAddress:
    found: LaggingAddress = st.session_state.setdefault(_KEPT, LaggingAddress())
    return found
