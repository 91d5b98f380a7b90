"""A run by its link: finding it, what is said when it is gone, and where the link works."""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.run import Run
from app.player import CURSOR
from app.records import access as entries
from app.records import visitor
from app.ui import address


def find_run(key: str | None) -> Run | None:
    """The run that an address names, by its id or its shared link, if the visitor may see it."""
    return services.run_of(key, visitor.of_session())


def missing_run_notice(otherwise: str) -> None:
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


def only_here() -> None:
    """Say that a link of this server works on this machine alone, where that is so."""
    if address.on_this_machine(st.context.url or ""):
        st.caption(
            ":material/lan: This address works on this machine only. For others, download the run as "
            "Player (HTML): one file that plays in any browser."
        )
