"""Shows, next to a page's title, what is still loading: the bundled models, then the server's default family."""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.models import Choice
from app.text import plain
from app.ui import quirks
from app.ui.fragment import fragment

from . import model_picker


def show() -> None:
    """A badge that follows the loading by itself. Once a family is ready the page is redrawn with it."""
    bundled = services.shelf().status(Choice()).state == "loading"
    usual = model_picker.preparing()
    waiting = usual is not None and usual.state == "loading"

    @fragment(run_every=0.5 if bundled or waiting else None)
    def follow() -> None:
        if bundled:
            if services.shelf().status(Choice()).state != "loading":
                quirks.rerun()
            st.badge("Models warming up; Run waits for them", icon=":material/hourglass_top:", color="gray")
        elif waiting:
            now = model_picker.preparing()
            if now is None or now.state != "loading":
                quirks.rerun()
            else:
                st.badge(plain(_words(now.text, now.fraction)), icon=":material/downloading:", color="gray")

    follow()


def _words(text: str, fraction: float | None) -> str:
    share = "" if fraction is None else f" ({fraction:.0%})"
    return f"{model_picker.usual_title()}{share}: {text}"
