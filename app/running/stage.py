"""The player on a page: a run while it is live, then its whole record; keeps its cursor in the page's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import streamlit as st

from app import services
from app.decoding.run import Run
from app.lanes import links
from app.player import CURSOR, VIEWS, Seen, player
from app.records import access as entries
from app.records import visitor
from app.records.listing import Entry
from app.ui import address, presenter, quirks
from app.ui.fragment import fragment
from app.ui.state import state
from specdec_core.rules import RULES

from .results import Shown

RULE_WORDS = {name: {"title": rule.title, "lossless": rule.lossless} for name, rule in RULES.items()}


class Provenance(TypedDict):
    """The source of the figures."""

    provenance: Literal["measured", "recorded"]
    provenance_note: str


HERE: Provenance = {"provenance": "measured", "provenance_note": "this machine, this run"}


@fragment
def stage(shown: Run | None, active: bool, kept: Entry | None = None, example: Shown | None = None) -> None:
    """The player with a run of this server, else one from the library, else a recorded example.

    `active` is whether the page treats the run as running: it is then shown live, and the page redrawn at its end. A
    run that was cut off stays as it was, from the same stream, which ends with the reason.
    """
    present = presenter.presenting()
    if shown is not None and (active or shown.cut_off):
        seen = draw(
            shown.id,
            mode="live",
            events=shown.events_path,
            prompt=shown.before,
            traces=[{"label": label} for label in shown.request.labels],
            present=present,
            **HERE,
        )
        if active and seen.done == shown.id:
            shown.wait(1.0)
            quirks.rerun()
    elif shown is not None and shown.ends:
        run, turn = state.jump
        traces = [
            {"label": shown.request.labels[lane], "url": shown.trace_path(lane)}
            for lane in sorted(shown.ends)
        ]
        of = f"{shown.id}.{turn}" if run == shown.id else shown.id
        draw(of, mode="replay", traces=traces, present=present, **HERE)
    elif kept is not None:
        draw(
            kept.key,
            mode="replay",
            traces=entries.traces(
                [kept], visitor.of_session(), services.library(), inline=not visitor.is_remembered()
            ),
            provenance="measured" if entries.measured_here(kept) else "recorded",
            provenance_note=entries.origin(kept),
            present=present,
        )
    elif example is not None:
        draw(
            example.id,
            mode="replay",
            traces=example.traces,
            provenance="recorded",
            provenance_note=example.origin,
            autoplay=True,
            brief=True,
            present=present,
        )


def draw(of: str, *, opens: int | None = None, key: str = "player", **shown: Any) -> Seen:
    """Draw the player at the address's cursor, to which the viewer's moves are written first; call it in a fragment.

    `of` names what is shown (an old cursor does not apply to a new run), `opens` the round where it opens if the
    address names none; the rest is passed to `player`.
    """
    reported = (st.session_state.get(key) or {}).get("cursor") or {}
    for name in CURSOR if reported.get("of") == of else ():
        value = None if reported.get(name) is None else str(reported[name])
        if st.query_params.get(name) != value:
            address.put(name, value)
    cursor = cursor_in(st.query_params)
    if cursor["round"] is None:
        cursor["round"] = opens
    return player(cursor=cursor, rules=RULE_WORDS, of=of, addressed=True, key=key, **shown)


def cursor_in(params: Mapping[str, str]) -> dict[str, int | str | None]:
    """The cursor of an address; None for everything missing or invalid.

    Only the player knows which lanes, rounds, events and nodes there are; it clamps what is out of range.
    """
    view = params.get("view")
    numbers = {key: links.whole(params.get(key)) for key in CURSOR if key != "view"}
    return {**numbers, "view": view if view in VIEWS else None}
