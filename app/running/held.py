"""What an owner can do with a run: share, name and delete it; and import one from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlencode

import streamlit as st

from app import services
from app.decoding.run import Run
from app.export import button
from app.player import CURSOR
from app.records import access as entries
from app.records import importing, visitor
from app.records.database import Unavailable
from app.records.listing import Entry, side_by_side
from app.records.store import MAX_NAME, Full, Library, Saved
from app.text import count, plain
from app.ui import address
from app.ui.state import State, state
from specdec_core.foundations.errors import TraceError
from specdec_core.record.read import race_json
from specdec_core.record.trace import Trace

MOST_FILES = 8


def link_to(key: str, cursor: Iterable[str]) -> str:
    """The address of this run at the viewer's position."""
    here = {name: st.query_params[name] for name in cursor if name in st.query_params}
    base = (st.context.url or "/library").split("?")[0]
    return f"{base}?{urlencode({'run': key, **here})}"


def draw(entry: Entry, library: Library, cursor: Iterable[str]) -> None:
    """Sharing, naming and deleting of the visitor's own run."""
    saved = entry.source
    assert isinstance(saved, Saved)
    whose = visitor.of_session()
    with st.popover("Share", icon=":material/link:"):
        _share(saved, library, whose, cursor)
    with st.popover("Rename", icon=":material/edit:"), st.form("rename", border=False):
        name = st.text_input(
            "Name",
            value=saved.name or "",
            max_chars=MAX_NAME,
            help="A named run is never removed to make room.",
        )
        if st.form_submit_button("Save name", type="primary"):
            _keep(lambda: library.rename(whose, saved.id, name))
    with st.popover("Delete", icon=":material/delete:"):
        traces = count(len(entry.lanes), "trace")
        st.markdown(
            f"This deletes the run and its {traces} for good"
            + (", and its shared link will stop working." if saved.link else ".")
        )
        if st.button("Delete permanently", type="primary", key="delete"):
            library.delete(whose, saved.id)
            services.runs().forget(saved.id)  # the lab would show it until the server drops it
            close(cursor)
            st.rerun()


def _keep(change: Callable[[], object]) -> None:
    """Make a change that keeps the run for good, and redraw; or say why not."""
    try:
        change()
    except Full as error:
        st.error(plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _share(saved: Saved, library: Library, whose: str, cursor: Iterable[str]) -> None:
    if saved.link is None:
        st.markdown("Whoever has the link can read this run and step through it. Nobody can change it.")
        if st.button("Make a link", type="primary", key="share"):
            _keep(lambda: library.share(whose, saved.id))
        return
    st.markdown("This link opens the run at your current position, read-only, in any browser:")
    st.code(link_to(saved.link, cursor), language=None, wrap_lines=True)
    only_here()
    if st.button("Revoke the link", key="revoke", help="The link will stop working; a new one can be made."):
        library.revoke(whose, saved.id)
        st.rerun()


def only_here() -> None:
    """Say that a link of this server works on this machine alone, where that is so."""
    if address.on_this_machine(st.context.url or ""):
        st.caption(
            ":material/lan: This address works on this machine only. For others, download the run as "
            "Player (HTML): one file that plays in any browser."
        )


def downloads(shown: Sequence[Entry], whose: str, library: Library) -> None:
    """The runs as self-contained pages, and each lane's record as a file."""
    with st.popover("Download", icon=":material/download:"):
        for entry in shown:

            def page(entry: Entry = entry) -> str:
                return _page(entry, whose, library)

            of = "" if len(shown) == 1 else f"{plain(entry.title)}: "
            button.draw(f"{of}Player (HTML)", page, _file(entry), f"html-{entry.key}")
            if len(entry.lanes) > 1:

                def race(entry: Entry = entry) -> str:
                    return race_json(_traces(entry, whose, library))

                button.race(f"{of}Race (JSON)", race, _file(entry), f"race-{entry.key}")
        for entry, number in side_by_side(shown):

            def json(entry: Entry = entry, number: int = number) -> bytes:
                return entries.data(entry, number, whose, library)

            st.download_button(
                f"{plain(entry.lanes[number].label)}: trace (JSON)",
                data=json,
                file_name=f"{_file(entry)}-{number}.json",
                mime="application/json",
                on_click="ignore",
                icon=":material/data_object:",
                key=f"json-{entry.key}-{number}",
            )


def _page(entry: Entry, whose: str, library: Library) -> str:
    from app.export.page import make

    traces = _traces(entry, whose, library)
    if not traces:
        return entries.GONE.decode()
    raced = None if entries.imported(entry) else True  # an imported record says it itself, or nothing does
    return make(traces, [lane.label for lane in entry.lanes], title=entry.title, raced=raced)


def _traces(entry: Entry, whose: str, library: Library) -> list[Trace]:
    """The records of a run's lanes; none once it is deleted."""
    data = [entries.data(entry, number, whose, library) for number in range(len(entry.lanes))]
    return [] if entries.GONE in data else [Trace.from_json(lane) for lane in data]


def _file(entry: Entry) -> str:
    """A file name for this run: its name, if it has one in Latin letters, else its key."""
    named = entry.source.name if isinstance(entry.source, Saved) else None
    return "specdec-" + (re.sub(r"[^A-Za-z0-9]+", "-", named or "").strip("-") or entry.key.replace(".", "-"))


def close(cursor: Iterable[str]) -> None:
    """Close what is open in the player."""
    address.drop(("run", *cursor))


def held(key: str | None) -> Run | None:
    """The run that an address names, by its id or its shared link, if the visitor may see it."""
    return services.run_of(key, visitor.of_session())


def let_go(otherwise: str) -> None:
    """In place of a run that the server no longer holds: the way to it in the library, or that it is deleted.

    Args:
        otherwise: what to do about a deleted one.
    """
    key = st.query_params.get("run", "")
    if entries.open_one(key, visitor.of_session(), services.library()) is None:
        st.info(
            "The run of this link is no longer kept on this server, or is not shared. Its owner can share it: in the "
            f"Library, open the run and press Share. {otherwise}",
            icon=":material/history:",
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(
            "This page no longer holds the run of this link, but the library does.", icon=":material/history:"
        )
        here = {name: st.query_params[name] for name in CURSOR if name in st.query_params}
        st.page_link(
            "app_pages/library.py",
            label="Open it in the library",
            icon=":material/inventory_2:",
            query_params={"run": key, **here},
        )


def import_box(library: Library) -> None:
    """Import traces and races from files, one run each."""
    turn = state.import_turn
    # A new key closes the box once files have arrived: it would cover the messages about them.
    with st.popover("Import", icon=":material/upload_file:", key=f"import-{turn}"):
        st.markdown(
            "A race or a trace that this program or `python -m specdec_core` wrote. It is checked, and kept as "
            "imported: none of its figures count as measured here."
        )
        files = st.file_uploader(
            f"Trace files (JSON, up to {importing.MAX_MB} MB each)",
            type=["json"],
            accept_multiple_files=True,
            max_upload_size=importing.MAX_MB,
            key=f"files-{turn}",
        )
        if files:
            found = [_take(file.name, file.getvalue(), library) for file in files[:MOST_FILES]]
            if len(files) > MOST_FILES:
                found.append(
                    (False, f"Up to {MOST_FILES} files are imported at once; the others were left out.")
                )
            state.imported = found
            state.import_turn = turn + 1  # an empty box again: drops the files
            st.rerun()


def import_results() -> None:
    """The result of the last import, until the next click."""
    for sound, words in State.imported.take():
        if sound:
            st.success(words, icon=":material/check_circle:")
        else:
            st.warning(words, icon=":material/warning:")


def _take(name: str, data: bytes, library: Library) -> tuple[bool, str]:
    shown = plain(name[:80])
    try:
        _, lanes = importing.take(visitor.of_session(), data, library)
    except (TraceError, Full, Unavailable) as error:
        return False, f"{shown} was not imported. {plain(str(error))}"
    if problem := next((lane.problem for lane in lanes if lane.problem), None):
        return False, (
            f"{shown} was imported, but its record contradicts itself, so do not trust its figures: {plain(problem)}"
        )
    what = f"a race of {count(len(lanes), 'lane')}" if len(lanes) > 1 else plain(lanes[0].label)
    return True, f"{shown} was imported: {what}, {count(lanes[-1].tokens, 'token')}. It is in the list."
