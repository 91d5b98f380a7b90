"""The player on a page: the one place where its cursor and the page's address are kept in step."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import streamlit as st
from streamlit.components.v2.bidi_component import BidiComponentResult

from specdec_core.rules import RULES

from . import links
from .player import player

RULE_WORDS = {name: {"title": rule.title, "lossless": rule.lossless} for name, rule in RULES.items()}
CURSOR = ("round", "node")  # its keys in the address


class Provenance(TypedDict):
    """Where the figures come from."""

    provenance: Literal["measured", "recorded"]
    provenance_note: str


HERE: Provenance = {"provenance": "measured", "provenance_note": "this machine, this run"}


def draw(of: str, **shown: Any) -> BidiComponentResult:
    """Draw the player at the address's cursor and write the cursor back as the viewer moves; call it in a fragment.

    `of` names what is shown (an old cursor says nothing about a new run); the rest is handed on to `player`.
    """
    cursor = {key: links.whole(st.query_params.get(key)) for key in CURSOR}
    seen = player(cursor=cursor, rules=RULE_WORDS, of=of, **shown)
    told = seen.cursor or {}
    for key, value in told.items() if told.get("of") == of else ():
        if key in CURSOR:
            if value is None:
                st.query_params.pop(key, None)
            elif st.query_params.get(key) != str(int(value)):
                st.query_params[key] = str(int(value))
    return seen
