"""Shown while a run's models load; its place in the queue is the player's to say."""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.run import Run
from app.text import plain
from app.ui.fragment import fragment

LOADING_S = 0.5  # between two looks at models that load
RUNNING_S = 5.0  # at a run: the player says when it is over; this is for a page that lost the run's stream


def waiting(shown: Run | None, active: bool) -> None:
    """Shown while the models are downloaded and loaded. Notices when the run is over.

    `active` is whether the rest of the page treats the run as running. It is read once: if the run ended while the page
    is drawn, the two halves would disagree, and nobody would redraw it.
    """

    loading = shown is not None and shown.state == "loading"

    @fragment(run_every=None if not active else LOADING_S if loading else RUNNING_S)
    def wait() -> None:
        if shown is None or not active:
            return
        if shown.finished:
            st.rerun()
        if shown.state == "loading":
            status = services.shelf().status(shown.request.choice)
            st.progress(status.fraction or 0.0, text=plain(status.text or "Waiting for the models") + "…")

    wait()
