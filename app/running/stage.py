"""The player on a page: the one place where its cursor and the page's address are kept in step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import streamlit as st

from app.lanes import links
from app.player import CURSOR, VIEWS, Seen, player
from app.ui import address
from specdec_core.rules import RULES

RULE_WORDS = {name: {"title": rule.title, "lossless": rule.lossless} for name, rule in RULES.items()}


class Provenance(TypedDict):
    """Where the figures come from."""

    provenance: Literal["measured", "recorded"]
    provenance_note: str


HERE: Provenance = {"provenance": "measured", "provenance_note": "this machine, this run"}


def draw(of: str, *, opens: int | None = None, **shown: Any) -> Seen:
    """Draw the player at the address's cursor and write the cursor back as the viewer moves; call it in a fragment.

    `of` names what is shown (an old cursor says nothing about a new run), `opens` the round where it opens if the
    address names none; the rest is handed on to `player`.
    """
    cursor = cursor_in(st.query_params)
    if cursor["round"] is None:
        cursor["round"] = opens
    seen = player(cursor=cursor, rules=RULE_WORDS, of=of, addressed=True, **shown)
    told = seen.cursor or {}
    for key in CURSOR if told.get("of") == of else ():
        value = None if told.get(key) is None else str(told[key])
        if st.query_params.get(key) != value:
            address.put(key, value)
    return seen


def cursor_in(params: Mapping[str, str]) -> dict[str, int | str | None]:
    """The cursor of an address; None for everything that it does not say, or says in a form that means nothing.

    Which lanes, rounds, events and nodes there are only the player knows; it moves what is out of range into it.
    """
    view = params.get("view")
    numbers = {key: links.whole(params.get(key)) for key in CURSOR if key != "view"}
    return {**numbers, "view": view if view in VIEWS else None}
