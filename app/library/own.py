"""What an owner can do with a run of the library: share, name and delete it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import streamlit as st

from app import services
from app.player import CURSOR
from app.records import visitor
from app.records.listing import LibraryEntry
from app.records.store import MAX_NAME, Full, Library, Saved
from app.running.by_link import only_here
from app.text import count, plain
from app.ui import address


def draw(entry: LibraryEntry, library: Library) -> None:
    """Sharing, naming and deleting of the visitor's own run."""
    saved = entry.source
    assert isinstance(saved, Saved)
    whose = visitor.of_session()
    with st.popover("Share", icon=":material/link:"):
        _share(saved, library, whose)
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
            close()
            st.rerun()


def _keep(change: Callable[[], object]) -> None:
    """Make a change that keeps the run for good, and redraw; or say why not."""
    try:
        change()
    except Full as error:
        st.error(plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _share(saved: Saved, library: Library, whose: str) -> None:
    if saved.link is None:
        st.markdown("Whoever has the link can read this run and step through it. Nobody can change it.")
        if st.button("Make a link", type="primary", key="share"):
            _keep(lambda: library.share(whose, saved.id))
        return
    st.markdown("This link opens the run at your current position, read-only, in any browser:")
    st.code(_link_to(saved.link), language=None, wrap_lines=True)
    only_here()
    if st.button("Revoke the link", key="revoke", help="The link will stop working; a new one can be made."):
        library.revoke(whose, saved.id)
        st.rerun()


def _link_to(key: str) -> str:
    """The address of this run at the viewer's position."""
    here = {name: st.query_params[name] for name in CURSOR if name in st.query_params}
    base = (st.context.url or "/library").split("?")[0]
    return f"{base}?{urlencode({'run': key, **here})}"


def close() -> None:
    """Close what is open in the player."""
    address.drop(("run", *CURSOR))
