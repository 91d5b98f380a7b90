"""The visitor's own runs, and the recorded examples, as lists."""

from __future__ import annotations

from collections.abc import Collection

import streamlit as st

from app import services
from app.records import access as entries
from app.records import examples as recorded
from app.records import listing, visitor
from app.text import count, plain
from app.ui.state import State, state

from . import imports, rows, servers
from .picks import opened, ticked

PER_PAGE = 20


def own_runs(words: str, proposer: str, order: str, chosen: Collection[str]) -> None:
    """The visitor's runs, one page at a time; `chosen` are the keys of those that are to be compared."""
    library, whose = services.library(), visitor.of_session()
    mine = [entries.of_saved(saved) for saved in library.runs_of(whose)]
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Your runs", anchor=False, width="content")
        imports.box(library)
    imports.results()
    servers.draw(library)
    if not mine:
        st.info(
            "Nothing here yet. Press Run in the Lab, and the recorded run appears here; or import a trace. "
            "The recorded examples below can be opened at once.",
            icon=":material/inbox:",
        )
        st.page_link("app_pages/lab.py", label="Go to the Lab", icon=":material/science:")
        return
    if library.is_full(whose):
        st.warning(
            "Your library is full of named, shared and imported runs, so new ones are not kept. Delete some to make "
            "room.",
            icon=":material/warning:",
        )
    found = listing.find(mine, words, proposer, order)
    used = f"{rows.size(library.size(whose))} of {rows.size(library.limits.owner_bytes)}"
    kept = "kept on this server" if library.lasting else "kept until this server stops"
    shown = "" if len(found) == len(mine) else f"{len(found)} of "
    st.caption(
        f"{shown}{count(len(mine), 'run')}, {used}, {kept}. The oldest make room for new ones, "
        "unless they are named, shared or imported."
    )
    if not found:
        st.info("None of your runs match the search. Clear it to see them all.", icon=":material/search_off:")
    pages = max(1, -(-len(found) // PER_PAGE))
    state.sheet = min(state.sheet, pages)
    at = st.pagination(pages, key=State.sheet.key) if pages > 1 else 1
    for entry in found[(at - 1) * PER_PAGE : at * PER_PAGE]:
        rows.row(entry, chosen, opened, ticked)


def examples(words: str, proposer: str, chosen: Collection[str]) -> None:
    """The bundled examples, in their own order."""
    everything = [entries.of_example(example) for example in recorded.examples()]
    found = [entry for entry in everything if listing.find([entry], words, proposer, "newest")]
    if everything and not found:
        st.caption("No recorded example matches the search.")
    machines = plain(entries.origins(everything))
    for kind, title, about in (
        (
            "proposer",
            "Recorded examples",
            f"One for each proposer; they need no model. Recorded on: {machines}.",
        ),
        (
            "lesson",
            "Lessons from failure",
            "Slower, wasted, missed, changed: what goes wrong, and what it looks like.",
        ),
    ):
        cards = [entry for entry in found if entry.source.kind == kind]
        if cards:
            st.subheader(title, anchor=False)
            st.caption(about)
            with st.grid("auto", min_column_width=300, gap="small"):
                for entry in cards:
                    rows.card(entry, chosen, opened, ticked)
