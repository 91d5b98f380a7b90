"""Shows that the models of the next run are still loading, or that the server's default cannot be had."""

from __future__ import annotations

import streamlit as st

from app.text import plain
from app.ui.fragment import fragment

from . import model_picker


def show() -> None:
    """The line, which follows the loading by itself. Once the models are ready the page is redrawn with them."""
    waiting = model_picker.preparing().state == "loading"

    @fragment(run_every=0.5 if waiting else None)
    def follow() -> None:
        status = model_picker.preparing()
        if waiting and status.state != "loading":
            st.rerun()
        elif said := model_picker.preparing_words():
            sign = "error" if status.state == "failed" else "hourglass_top"
            st.caption(f":material/{sign}: {plain(said)}")

    follow()
