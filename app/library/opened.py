"""The runs that the address names, in the player, with what can be done with them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import services
from app.records import access as entries
from app.records import listing, visitor
from app.records.examples import Example
from app.records.listing import LibraryEntry
from app.running import downloads
from app.running.flow import draw as play
from app.text import plain
from app.ui import presenter
from app.ui.fragment import fragment

from . import own, rows, servers


def draw(named: Sequence[tuple[str, LibraryEntry | None]]) -> None:
    """What the address names, or why it cannot be shown."""
    shown = [entry for _, entry in named if entry is not None]
    if missing := len(named) - len(shown):
        alone = missing == len(named) == 1
        which = "This run" if alone else f"{missing} of these runs" if missing > 1 else "One of these runs"
        st.warning(
            f"{which} cannot be opened here: deleted, no longer shared, or owned by someone else.",
            icon=":material/search_off:",
        )
    if not shown:
        presenter.nothing_to_show()
        return
    if reason := listing.together(shown):
        st.warning(plain(reason), icon=":material/block:")
        return
    if presenter.presenting():
        _stage(shown)
        return
    with st.container(border=True, key="open"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            title = shown[0].title if len(shown) == 1 else f"Side by side: “{entries.start(shown[0].prompt)}”"
            st.subheader(plain(title), anchor=False, width="content")
            st.button("Close", icon=":material/close:", on_click=own.close, key="close")
        for entry in shown:
            if remark := entries.remark(entry):
                st.caption(plain(remark))
        if len(shown) > 1:
            st.caption(
                "These lanes are from different runs, each on its own clock at its own time. The table below "
                "shows each lane against plain decoding in its own run."
            )
        _stage(shown)


@fragment
def _stage(shown: Sequence[LibraryEntry]) -> None:
    """The player with the open run, and its actions."""
    library, whose = services.library(), visitor.of_session()
    one = shown[0] if len(shown) == 1 else None
    here = [entries.measured_here(entry) for entry in shown]
    some = ", some of them measured here" if any(here) and not all(here) else ""
    actions = st.container(horizontal=True)  # filled last: one of its links points to the player's position
    play(
        ",".join(entry.key for entry in shown),
        mode="replay",
        compared=one is not None,
        traces=entries.traces(shown, whose, library, inline=not visitor.is_remembered()),
        provenance="measured" if all(here) else "recorded",
        provenance_note=entries.origin(one) if one else f"each in a run of its own{some}",
        opens=one.source.opens if one and isinstance(one.source, Example) else None,
        present=presenter.presenting(),
        key="library-player",
    )
    if presenter.presenting():
        return
    with actions:
        if one and entries.is_mine(one):
            own.draw(one, library)
        with st.popover("Download", icon=":material/download:"):
            for entry in shown:
                if len(shown) > 1:
                    st.markdown(f"**{plain(entry.title)}**")
                downloads.of_entry(entry, whose, library)
    rows.table(shown)
    if one and entries.imported(one):
        title, icon = "Other draft lengths, by its own times", ":material/schedule:"
        with (box := st.expander(title, icon=icon, on_change="rerun", key="lengths")):
            if box.open:
                servers.of_record(one, library)
