"""What only the page's address holds: which run, which step, what was chosen.

Write it through this module, so that it survives a slow browser (quirks.py). Widgets do not need it: their own state
is authoritative.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import streamlit as st

from app.config import is_loopback

from .quirks import LaggingAddress

_KEPT = "address_written"


def put(key: str, value: str | None) -> None:
    """Write the key to the address; None removes it."""
    catch_up()
    _kept().put(key, value)


def drop(keys: Iterable[str]) -> None:
    """Remove the keys from the address."""
    for key in keys:
        put(key, None)


def on_this_machine(url: str) -> bool:
    """Whether an address leads back to the machine it is opened on, so that nobody else can use it."""
    return is_loopback(urlsplit(url).hostname or "")


def catch_up(page: str | None = None) -> None:
    """Write again what a late message of the browser does not include yet.

    Call it before reading the address. `page` is the current page, if known: another page starts afresh, as does the
    browser's back button.
    """
    turned = page is not None and st.session_state.get("address_page") != page
    if turned:
        st.session_state.address_page = page
    _kept().catch_up(afresh=turned)


def _kept() -> LaggingAddress:
    found: LaggingAddress = st.session_state.setdefault(_KEPT, LaggingAddress())
    return found
