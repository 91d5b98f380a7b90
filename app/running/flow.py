"""A page's run from pressing Run to the replay, shared by the lab and the comparison; and the player of every page.

The player shows a run while it is live, then its whole record, and keeps its cursor in the page's address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

import streamlit as st

from app import services
from app.decoding.jobs import Busy
from app.decoding.run import Request, Run
from app.decoding.runs import CurrentRun
from app.lanes import page_settings
from app.player import CURSOR, VIEWS, Seen, player
from app.records import access as entries
from app.records import visitor
from app.records.listing import LibraryEntry
from app.text import plain
from app.ui import address, presenter
from app.ui.fragment import fragment
from app.ui.state import State, state
from specdec_core.foundations.errors import SpecdecError
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES

from . import from_here, results
from .by_link import find_run, missing_run_notice
from .waiting import waiting

RULE_WORDS = {name: {"title": rule.title, "lossless": rule.lossless} for name, rule in RULES.items()}
PROPOSER_WORDS = {name: proposer.summary for name, proposer in PROPOSERS.items()}


class Provenance(TypedDict):
    """The source of the figures."""

    provenance: Literal["measured", "recorded"]
    provenance_note: str


HERE: Provenance = {"provenance": "measured", "provenance_note": "this machine, this run"}


@st.cache_resource(scope="session", on_release=CurrentRun.close, show_spinner=False)
def desk_of(page: str) -> CurrentRun:
    """The session's current run on a page; closing the tab ends it."""
    return CurrentRun(services.runs())


class Flow:
    """One run of a page's script: first `buttons`, then `follow`, then `report`, then `play`.

    Attributes:
        asked: whether Run was pressed.
        shown: the run that the address names, as long as the server holds it; None before `follow`.
        active: whether it is running. Read once, so that both halves of the page agree.
        kept: the same run from the library, if the server no longer holds it.
    """

    def __init__(self, page: str, forgets: Iterable[str]) -> None:
        """`forgets` are the address keys that do not apply to the next run."""
        self.page, self.forgets = page, tuple(forgets)
        self.asked = self.active = False
        self.shown: Run | None = None
        self.kept: LibraryEntry | None = None
        self._desk = desk_of(page)

    @property
    def untouched(self) -> bool:
        """Whether there is no run to show and none was asked for; it may be read before anything is drawn."""
        return not (self._desk.run or "run" in st.query_params or state.go or state.again)

    def buttons(self, words: str, on_click: Callable[[], None] | None = None) -> None:
        """Run, and Stop's place next to it; `words` is the help."""
        with st.container(horizontal=True, vertical_alignment="center", width="content", key="run"):
            self.asked = st.button(
                "Run",
                type="primary",
                icon=":material/play_arrow:",
                shortcut="Ctrl+Enter",
                key=State.go.key,
                on_click=on_click,
                help=words,
            )
            self._stop = st.container(width="content")
        self.asked, state.again = self.asked or state.again, False

    def follow(self, request: Callable[[], Request]) -> None:
        """Start a run if Run was pressed, and find the one to show. `request` raises `SpecdecError` to refuse."""
        desk = self._desk
        if (onward := State.onward.take()) or self.asked:
            try:
                desk.start(onward or request())
            except (SpecdecError, Busy) as error:
                st.error(plain(str(error)), icon=":material/error:")
        if desk.run is not None and desk.run.deleted:
            desk.run = None  # its visitor deleted it in the library
        going = desk.run is not None and not desk.run.finished
        if going and "run" not in st.query_params:  # the back button leads to the page, not out of the run
            state.noted.pop(self.page, None)
        # Not where the run starts: another rerun may interrupt the script there, and the run would continue unseen.
        if desk.run is not None and state.noted.get(self.page) != desk.run.id:
            address.put("run", desk.run.id)
            address.drop(self.forgets)
            state.complaints = []
            state.noted[self.page] = desk.run.id
        named = st.query_params.get("run")
        self.shown = find_run(named)
        self.active = self.shown is not None and not self.shown.finished
        if self.shown is None and named is not None:
            self.kept = entries.open_one(named, visitor.of_session(), services.library())
        self._stop.button(
            "Stop",
            icon=":material/stop:",
            shortcut=None if presenter.presenting() else "Escape",  # there it leads back to the page
            key="stop_run",
            on_click=desk.stop,
            disabled=not going,
            help="Ends the run within one round; what was decoded until then is kept.",
        )

    def report(self, otherwise: str) -> None:
        """Messages about the run before it is drawn; `otherwise`: what to do about a deleted one."""
        waiting(self.shown, self.active)
        if self.shown is not None:
            if (
                self.shown.error and not self.shown.failed_midway
            ):  # the player says it, below what was written
                st.error(plain(self.shown.error), icon=":material/error:")
            results.unsaved_note(self.shown)
        elif "run" in st.query_params:
            missing_run_notice(otherwise)

    def play(self, example: results.Shown | None = None, note: str = HERE["provenance_note"]) -> None:
        """The player, with the run or else a recorded example; `note`: where and when the run was measured."""
        stage(self.shown, self.active, self.kept, example, note)

    @property
    def result(self) -> Run | None:
        """The run, once it is over and has a result; one that was cut off has none to compare."""
        run = self.shown
        return run if run is not None and not self.active and run.ends and not run.failed_midway else None


@fragment
def stage(
    shown: Run | None,
    active: bool,
    kept: LibraryEntry | None = None,
    example: results.Shown | None = None,
    note: str = HERE["provenance_note"],
) -> None:
    """The player with a run of this server, else one from the library, else a recorded example.

    `active` is whether the page treats the run as running: it is then shown live, and the page redrawn at its end. A
    run that was cut off stays as it was, from the same stream, which ends with the reason.
    """
    present = presenter.presenting()
    if shown is not None and (active or shown.failed_midway):
        seen = draw(
            shown.id,
            mode="live",
            events=shown.events_path,
            prompt=shown.before,
            traces=[{"label": label} for label in shown.request.short],
            present=present,
            trail=from_here.trail(shown),
            **HERE,
        )
        if active and seen.done == shown.id:
            shown.wait(1.0)
            st.rerun()
    elif shown is not None and shown.ends:
        _replay(shown, note)
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
            present=present,
        )


def _replay(shown: Run, note: str) -> None:
    """A finished run of this server, which can go on from a candidate that its viewer chooses."""
    run, turn = state.jump
    traces = [
        {"label": shown.request.short[lane], "url": shown.trace_path(lane)} for lane in sorted(shown.ends)
    ]
    trail = from_here.trail(shown)
    seen = draw(
        f"{shown.id}.{turn}" if run == shown.id else shown.id,
        mode="replay",
        traces=traces,
        present=presenter.presenting(),
        provenance="measured",
        provenance_note=note,
        branches=True,
        trail=trail,
    )
    if seen.branch and (onward := from_here.request(shown, seen.branch)):
        state.onward = onward
        st.rerun()
    if any(seen.back == one["run"] != shown.id for one in trail):
        address.put("run", seen.back)
        address.drop(CURSOR)
        st.rerun()


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
    return player(
        cursor=cursor, rules=RULE_WORDS, proposers=PROPOSER_WORDS, of=of, addressed=True, key=key, **shown
    )


def cursor_in(params: Mapping[str, str]) -> dict[str, int | str | None]:
    """The cursor of an address; None for everything missing or invalid.

    Only the player knows which lanes, rounds, events and nodes there are; it clamps what is out of range.
    """
    view = params.get("view")
    numbers = {key: page_settings.whole(params.get(key)) for key in CURSOR if key != "view"}
    return {**numbers, "view": view if view in VIEWS else None}
