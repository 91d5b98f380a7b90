"""Shows what is still loading, the bundled models or the server's default family, and that the latter has come.

At most one line, always in the same place: what is below does not move when another takes its place.
"""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.models import ModelChoice
from app.text import plain
from app.ui.fragment import fragment
from app.ui.state import state

from . import controls, current, model_picker


def bar() -> None:
    """The control for the models, and beside it what is loading."""
    left, right = st.columns([3, 2], gap="small", vertical_alignment="bottom")
    with left:
        controls.models()
    with right:
        show()


def show() -> None:
    """The line, which follows the loading by itself. Once a family is ready the page is redrawn with it."""
    bundled = services.shelf().status(ModelChoice()).state == "loading"
    usual = model_picker.preparing()
    waiting = usual is not None and usual.state == "loading"

    @fragment(run_every=0.5 if bundled or waiting else None)
    def follow() -> None:
        now = services.shelf().status(ModelChoice()) if bundled else model_picker.preparing()
        if (bundled or waiting) and (now is None or now.state != "loading"):
            st.rerun()
        elif bundled:
            st.caption(":material/hourglass_top: Models warming up; Run waits for them.")
        elif line := _news():
            st.caption(line)

    follow()


def _news() -> str:
    """What is or was being prepared, with its sign; empty where what was chosen runs."""
    status = model_picker.preparing()
    if status is not None and (status.state == "loading" or state.model == model_picker.AUTO):
        sign = "error" if status.state == "failed" else "hourglass_top"
        return f":material/{sign}: {plain(model_picker.preparing_words())}"
    if state.ready_now == current.name():
        return f":material/check_circle: **{plain(model_picker.usual_title())} is ready: your next run uses it.**"
    return ""
