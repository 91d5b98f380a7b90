"""Importing traces and races from files into the library."""

from __future__ import annotations

import streamlit as st

from app import services
from app.records import importing, visitor
from app.records.database import Unavailable
from app.records.store import Full, Library
from app.text import count, plain
from app.ui.state import State, state
from specdec_core.foundations.errors import TraceError
from specdec_measure.watching import report

from . import servers

FILES_AT_ONCE = 8


def box(library: Library) -> None:
    """Import traces and races from files, one run each."""
    turn = state.import_turn
    # A new key closes the box once files have arrived: it would cover the messages about them.
    with st.popover("Import", icon=":material/upload_file:", key=f"import-{turn}"):
        st.markdown(
            "A race or a trace that this program or `python -m specdec_core` wrote. It is checked, and kept as "
            "imported: none of its figures count as measured here. Also what `specdec watch` wrote of a running server"
            + (
                "."
                if services.operator().endpoints
                else "; to watch one here, its operator has to allow that."
            )
        )
        files = st.file_uploader(
            f"Trace files (JSON, up to {importing.MAX_MB} MB each)",
            type=["json"],
            accept_multiple_files=True,
            max_upload_size=importing.MAX_MB,
            key=f"files-{turn}",
        )
        if files:
            found = [_take(file.name, file.getvalue(), library) for file in files[:FILES_AT_ONCE]]
            if len(files) > FILES_AT_ONCE:
                found.append(
                    (False, f"Up to {FILES_AT_ONCE} files are imported at once; the others were left out.")
                )
            state.imported = found
            state.import_turn = turn + 1  # an empty box again: drops the files
            st.rerun()


def results() -> None:
    """The result of the last import, until the next click."""
    for sound, words in State.imported.take():
        if sound:
            st.success(words, icon=":material/check_circle:")
        else:
            st.warning(words, icon=":material/warning:")


def _take(name: str, data: bytes, library: Library) -> tuple[bool, str]:
    shown = plain(name[:80])
    try:
        if f'"{report.FORMAT}"'.encode() in data[:200]:
            servers.remember(name[:80], report.read(data))
            return True, f"{shown} was read: what it says of that server is below."
        _, lanes = importing.take(visitor.of_session(), data, library)
    except (TraceError, Full, Unavailable) as error:
        return False, f"{shown} was not imported. {plain(str(error))}"
    if problem := next((lane.problem for lane in lanes if lane.problem), None):
        return False, (
            f"{shown} was imported, but its record contradicts itself, so do not trust its figures: {plain(problem)}"
        )
    what = f"a race of {count(len(lanes), 'lane')}" if len(lanes) > 1 else plain(lanes[0].label)
    return True, f"{shown} was imported: {what}, {count(lanes[-1].tokens, 'token')}. It is in the list."
