"""A run's downloads, the same wherever it is shown: one page that plays it, one file, each lane's record and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from mimetypes import guess_type

import streamlit as st

from app.decoding.run import Run
from app.records import access as entries
from app.records.listing import LibraryEntry
from app.records.store import Library, Saved
from app.text import plain
from specdec_core.record.trace import Trace

PAGE = "One file that plays this run in any browser, without a server or a network."
RACE = (
    "All lanes with their baseline in one file. The library imports it as one run, here or on another server."
)
TRACE = "The complete record: every proposal, probability, coin and time. It replays without a model."
TABLES = {
    "rounds": "One row per round; the page counts them from 1, the table from 0.",
    "tokens": "One row per committed token; the page counts rounds from 1, the table from 0.",
}
Read = Callable[
    [int], bytes
]  # a lane's trace as JSON, when its button is pressed; `GONE` once the run is deleted


def of_run(run: Run) -> None:
    """A finished run of this server; its lanes are its finished ones."""
    lanes = sorted(run.ends)

    def read(at: int) -> bytes:
        return run.archive.json(run.trace_name(lanes[at])) or entries.GONE

    draw(f"specdec-{run.id}", [run.request.labels[lane] for lane in lanes], read)


def of_entry(entry: LibraryEntry, whose: str, library: Library) -> None:
    """A run of the library."""
    read, imported = partial(entries.data, entry, owner=whose, library=library), entries.imported(entry)
    labels = [lane.label for lane in entry.lanes]
    # An imported record says itself whether its lanes were in one race, or nothing does.
    draw(file_name(entry), labels, read, title=entry.title, raced=None if imported else True)


def file_name(entry: LibraryEntry) -> str:
    """What its files' names begin with: its name, if it has one in Latin letters, else its key."""
    named = entry.source.name if isinstance(entry.source, Saved) else None
    return "specdec-" + (re.sub(r"[^A-Za-z0-9]+", "-", named or "").strip("-") or entry.key.replace(".", "-"))


def draw(
    name: str, labels: Sequence[str], read: Read, *, title: str | None = None, raced: bool | None = True
) -> None:
    """The buttons of one run.

    Args:
        name: what its files' names begin with.
        labels: its lanes' names.
        title, raced: as for `app.export.page.make`.
    """

    with st.container(horizontal=True):
        make_page = partial(page_of, labels, read, title, raced)
        button("Player (HTML)", make_page, f"{name}.html", PAGE, "slideshow")
        if len(labels) > 1:
            button("Race (JSON)", partial(_race, labels, read), f"{name}.json", RACE)
    for at, label in enumerate(labels):
        st.markdown(f"**{plain(label)}**")
        with st.container(horizontal=True):
            button("Trace (JSON)", partial(read, at), f"{name}-{at}.json", TRACE)
            for table, words in TABLES.items():
                make_table = partial(_table, read, at, table)
                button(
                    f"{table.capitalize()} (CSV)", make_table, f"{name}-{at}-{table}.csv", words, "table_view"
                )


def page_of(labels: Sequence[str], read: Read, title: str | None, raced: bool | None) -> bytes:
    """The run as a page that plays it."""
    from app.export.page import make

    lanes = [read(at) for at in range(len(labels))]
    if entries.GONE in lanes:
        return entries.GONE
    return make([Trace.from_json(lane) for lane in lanes], labels, title=title, raced=raced).encode()


def _race(labels: Sequence[str], read: Read) -> bytes:
    lanes = [read(at) for at in range(len(labels))]
    return entries.GONE if entries.GONE in lanes else b"[" + b",".join(lanes) + b"]"


def _table(read: Read, at: int, table: str) -> bytes:
    lane = read(at)
    return lane if lane == entries.GONE else csv_of(Trace.from_json(lane), table).encode()


def csv_of(trace: Trace, table: str) -> str:
    """One of the record's tables. The writer quotes what its line ends consist of, so a token that is a carriage return
    breaks no row."""
    return str(trace.frames()[table].to_csv(index=False, lineterminator="\r\n"))


def button(
    title: str,
    make: Callable[[], bytes | str],
    file: str,
    words: str | None = None,
    icon: str = "data_object",
) -> None:
    """A download that is made when it is pressed."""
    st.download_button(
        title,
        data=make,
        file_name=file,
        mime=guess_type(file)[0],
        on_click="ignore",
        icon=f":material/{icon}:",
        key=file,
        help=words,
    )
