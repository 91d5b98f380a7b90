"""Running servers that the operator allows: why one is not faster, other draft lengths on it, and a race of two."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app import services
from app.records import access as entries
from app.records import visitor
from app.records.database import Unavailable
from app.records.listing import LibraryEntry
from app.records.store import Full, Library
from app.records.summary import summarize
from app.running import downloads
from app.text import plain
from app.ui import tables
from app.ui.state import State, state
from app.ui.widgets import pick
from specdec_core.foundations.errors import SpecdecError
from specdec_core.record.trace import Trace
from specdec_measure.watching import asking, numbers, racing, report
from specdec_measure.watching.cause import cause
from specdec_measure.watching.client import Server

from . import picks

LENGTH = 96  # tokens of an answer
MOST_PROMPT = 2_000  # characters
SECONDS = 20.0  # for the requests of one kind
TIMEOUT = 15.0  # for one request
NONE = "none"
HOW = (
    "A few short requests go to this address and nowhere else. What a guess costs, and so what other draft lengths "
    "would give, is known only beside a second server of the same model, with another draft length or without guesses."
)
BUSY = "Somebody else measures these servers now, and each would disturb the other. Try again in a minute."
Say = Callable[[str], None]  # what is being done
_one_at_a_time = threading.Lock()


def draw(library: Library) -> None:
    """The servers that are allowed, what is done with them, and what was found, here or in a file; else nothing."""
    if allowed := services.operator().endpoints:
        with st.expander("Running servers", icon=":material/dns:", key="servers"):
            _asking(allowed, library)
    if (found := state.watched.get(state.watched_last or "")) is None:
        return
    with st.container(border=True, key="watched"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.subheader(plain(f"{found.engine} at {found.url}"), anchor=False, width="content")
            st.button("Close", icon=":material/close:", on_click=_forget, key="close-watched")
        view(found)


def _forget() -> None:
    state.watched_last = None


def _asking(allowed: Sequence[str], library: Library) -> None:
    with st.grid(2, min_column_width=260, gap="small"):
        url = pick("Server", {one: one for one in allowed}, State.server.key, HOW)
        others = {NONE: "no other", **{one: one for one in allowed if one != url}}
        other = pick("Beside it", others, State.beside.key, "Another server of the same model.")
    prompt = st.text_input("Prompt of a race", asking.PROMPTS[0], MOST_PROMPT, key=State.raced.key)
    with st.container(horizontal=True):
        watch = st.button(
            "Why is it not faster?", type="primary", icon=":material/troubleshoot:", key="watch"
        )
        race = st.button(
            "Race both", icon=":material/flag:", key="race-servers", disabled=other == NONE or not prompt
        )
    beside = [other] if other != NONE else []
    if watch:
        _sentences(lambda say: _watch(url, beside, say))
    if race:
        _sentences(lambda say: _race([*beside, url], prompt, library, say))


def of_record(entry: LibraryEntry, library: Library) -> None:
    """What other draft lengths would give by the times of an imported run, or why that is unknown."""
    whose = visitor.of_session()
    try:
        lanes = [Trace.from_json(entries.data(entry, at, whose, library)) for at in range(len(entry.lanes))]
        found = numbers.of_records(lanes)
    except SpecdecError as error:
        st.caption(plain(str(error)))
        return
    state.watched = {**state.watched, entry.key: found}
    view(found)


def _sentences(work: Callable[[Say], None]) -> None:
    """Do the work while nobody else measures; what prevents it is one sentence."""
    if not _one_at_a_time.acquire(blocking=False):
        st.warning(BUSY, icon=":material/hourglass:")
        return
    try:
        with st.status("Asking …") as status:
            work(lambda said: status.update(label=plain(said)))
    except (SpecdecError, Full, Unavailable) as error:
        state.watched_last = None
        st.error(plain(str(error)), icon=":material/error:")
    finally:
        _one_at_a_time.release()


def _server(url: str) -> Server:
    return Server(url, TIMEOUT, services.operator().watch_key or None)


def _watch(url: str, beside: list[str], say: Say) -> None:
    requests = asking.bodies(None)

    def ask(one: str, name: str, more: dict[str, Any] | None = None) -> asking.Leg:
        return asking.ask(
            _server(one), name, requests, LENGTH, time.monotonic() + SECONDS, more,
            lambda done: say(f"{one}, {name}: {done} of {len(requests)} answers"),
        )  # fmt: skip

    main, neutral = ask(url, "as asked for"), ask(url, "greedily", dict(asking.NEUTRAL))
    remember(url, numbers.watched(main, [ask(one, "as asked for") for one in beside], neutral))


def remember(name: str, found: numbers.Watched) -> None:
    """Keep it for this session, and show it."""
    state.watched = {**state.watched, name: found}
    state.watched_last = name


def _race(urls: list[str], prompt: str, library: Library, say: Say) -> None:
    lanes = racing.race([_server(one) for one in urls], prompt, LENGTH, lambda one: say(f"{one} answers …"))
    traces = [lane.trace for lane in lanes]
    found = summarize(traces, [lane.label for lane in lanes])
    kept = [(one, trace.to_json().encode()) for one, trace in zip(found, traces, strict=True)]
    machine = " and ".join(dict.fromkeys(trace.header.machine for trace in traces))
    key = library.add(
        visitor.of_session(),
        prompt,
        kept,
        origin="imported",
        machine=machine,
        recorded=traces[0].header.created,
    )
    state.imported = [(False, plain(lane.unknown)) for lane in lanes if lane.unknown]
    state.watched_last = None
    picks.opened(key)
    st.rerun()


def view(found: numbers.Watched) -> None:
    """What was found of a server: the cause, its numbers, other draft lengths, and downloads."""
    why = cause(found)
    name = plain(why.name[:1].upper() + why.name[1:])
    st.markdown(f"**{name}.** {plain(why.seen)}  \n**Change:** {plain(why.change)}")
    rows = [{"measured": name, "value": value, "of it": more} for name, value, more in report.lines(found)]
    tables.draw(rows, f"Numbers of {found.url}")
    if lengths := report.lengths(found):
        st.markdown(f"**{report.LENGTHS}**")
        tables.draw(lengths, f"Other draft lengths at {found.url}")
        st.caption("Compare has this server among the machines of its What if: recorded rounds on its clock.")
    with st.container(horizontal=True):
        content = partial(report.as_json, found, why)
        downloads.button("Numbers (JSON)", lambda: json.dumps(content(), indent=1), "specdec-watch.json")
        downloads.button(
            "Report (HTML)", partial(report.page, found, why), "specdec-watch.html", icon="article"
        )
