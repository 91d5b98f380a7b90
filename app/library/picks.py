"""Runs chosen for comparison: the address names them, in the order in which they were chosen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import services
from app.records import access as entries
from app.records import listing, visitor
from app.records.listing import LibraryEntry
from app.text import count, plain
from app.ui import address, frame, presenter

from . import own


def listed(key: str, most: int) -> list[tuple[str, LibraryEntry | None]]:
    """The runs that an address key names, without duplicates; None for one that cannot be opened here."""
    names = list(dict.fromkeys(name for name in st.query_params.get(key, "").split(",") if name))
    library, whose = services.library(), visitor.of_session()
    return [(name, entries.open_one(name, whose, library)) for name in names[:most]]


def picked() -> list[LibraryEntry]:
    """The chosen runs that can be opened."""
    return [entry for _, entry in listed("picked", 2 * listing.MOST_SHOWN) if entry is not None]


def opened(key: str) -> None:
    """Show a run from its beginning."""
    own.close()
    address.put("run", key)
    frame.reveal("open")


def ticked(key: str, box: str) -> None:
    """Add a run to the comparison or remove it, as its checkbox says; a checkbox may report the same state twice."""
    address.catch_up()
    keys = [entry.key for entry in picked()]
    if not st.session_state[box]:
        keys = [other for other in keys if other != key]
    elif key not in keys:
        keys.append(key)
    address.put("picked", ",".join(keys) or None)


def draw(chosen: Sequence[LibraryEntry]) -> None:
    """The button that compares the chosen runs, and the one that chooses none."""
    # Always in the layout, even when empty: Streamlit would otherwise redraw the cards below it.
    with st.container(key="choice"):
        if not chosen or presenter.presenting():
            return
        apart = listing.together(chosen)
        with st.container(horizontal=True, vertical_alignment="center", key="compare"):
            st.button(
                f"Compare {count(len(chosen), 'run')}",
                type="primary",
                icon=":material/compare:",
                on_click=_compare,
                disabled=len(chosen) < 2 or apart is not None,
                key="compare-now",
                help="Shows the chosen runs side by side in the player.",
            )
            st.button("Clear selection", on_click=address.put, args=("picked", None), key="unpick")
            if len(chosen) < 2:
                st.caption("Choose one more run of the same prompt.")
            elif apart:
                st.caption(f":material/block: {plain(apart)}")


def _compare() -> None:
    """Show the chosen runs side by side."""
    address.catch_up()
    opened(",".join(entry.key for entry in picked()))
