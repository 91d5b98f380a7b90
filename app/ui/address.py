"""The page's address: read when a page opens, written at the end of each run.

A page's settings are in its table (`page_settings`): `fill` puts a link's values into their widgets, which count from
then on, and `write` says in the address what they hold. Whatever only the address has, such as the run that is shown,
goes through `put`, so that it survives a slow browser (quirks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st

from app.config import is_loopback
from app.lanes import page_settings
from app.lanes.fields import Field

from .quirks import LaggingAddress, brought_along, came_by_history
from .state import state

_KEPT = "address_written"


def params() -> dict[str, list[str]]:
    """The address's parameters, each with all its values."""
    return {key: st.query_params.get_all(key) for key in st.query_params}


def fill(table: Iterable[Field], found: Mapping[str, Any], *, anew: bool = False) -> None:
    """Give the page's widgets what was found in its link; the others stay as they were on the page before.

    After the browser's back or forward button the address is the whole truth, and the others have their defaults.
    `anew`: the session begins; what the boxes of a browser hold that comes back to a new session counts before all.
    """
    for each in table:
        value = found.get(each.key, each.start())
        if each.key in st.session_state:
            if each.key not in found and not came_by_history():
                value = st.session_state[each.key]
            del st.session_state[
                each.key
            ]  # else it stays the value of another page's widget until this one's is drawn
        sent = each.typed(brought_along(each.key)) if anew else None
        st.session_state[each.key] = value if sent is None else sent


def write(
    table: Iterable[Field],
    more: Mapping[str, Sequence[str]] = MappingProxyType({}),
    further: Collection[str] = (),
) -> None:
    """Let the address say what is chosen.

    Args:
        table: the settings, whose values the session has.
        more: what else it has to say.
        further: all keys that may be in `more`, or their prefixes before the dot.
    """
    table = list(table)
    wanted = {**page_settings.write(table, {each.key: getattr(state, each.key) for each in table}), **more}
    managed = {*further, *(each.key for each in table)}
    for key in params().keys() - wanted.keys():
        if {key, key.partition(".")[0]} & managed:
            put(key, None)
    for key, texts in wanted.items():
        if (now := st.query_params.get_all(key)) != list(texts):
            if max(len(now), len(texts)) == 1:
                put(key, texts[0])
            else:
                st.query_params[key] = texts if len(texts) > 1 else texts[0]


def put(key: str, value: str | None) -> None:
    """Write the key to the address; None removes it."""
    catch_up()
    _kept().put(key, value)


def drop(keys: Iterable[str]) -> None:
    """Remove the keys from the address."""
    for key in keys:
        put(key, None)


def href(page: str = "", **given: Any) -> str:
    """The address of a page of the app, "" being the lab's, as a link on any of its pages has it.

    It is relative, as the app may be below a path of its host: all pages are one level below the app's root.
    """
    query = urlencode(given, doseq=True)
    return (page.lstrip("/") or "./") + (f"?{query}" if query else "")


def on_this_machine(url: str) -> bool:
    """Whether an address leads back to the machine it is opened on, so that nobody else can use it."""
    return is_loopback(urlsplit(url).hostname or "")


def catch_up(page: str | None = None) -> None:
    """Write again what a late message of the browser does not include yet.

    Call it before reading the address. `page` is the current page, if known: another page starts afresh, as does the
    browser's back button, and its address is to be read.
    """
    turned = page is not None and (state.drawn_page != page or came_by_history())
    if page is not None and turned:
        state.drawn_page, state.opened = page, ""
    _kept().catch_up(afresh=turned)


def _kept() -> LaggingAddress:
    found: LaggingAddress = st.session_state.setdefault(_KEPT, LaggingAddress())
    return found
