"""Shown while a run has not begun to write: the models' download, the place in the queue."""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.run import Run
from app.text import plain
from app.ui.fragment import fragment


def waiting(shown: Run | None, active: bool) -> None:
    """Shown before the first token: the models' download, the queue. Notices when the run is over.

    `active` is whether the rest of the page treats the run as running. It is read once: if the run ended while the page
    is drawn, the two halves would disagree, and nobody would redraw it.
    """

    @fragment(run_every=0.5 if active else None)
    def wait() -> None:
        if shown is None or not active:
            return
        if shown.finished:
            st.rerun()
        if shown.state == "loading":
            status = services.shelf().status(shown.request.choice)
            st.progress(status.fraction or 0.0, text=plain(status.text or "Waiting for the models") + "…")
        elif shown.state == "queued" and shown.place:
            ahead = "one run is" if shown.place == 1 else f"{shown.place} runs are"
            seconds = services.runs().wait_s(shown)
            about = "" if seconds is None else f", about {max(1, round(seconds))} s"
            st.info(f"Waiting: {ahead} ahead of yours{about}.", icon=":material/hourglass_top:")

    wait()
