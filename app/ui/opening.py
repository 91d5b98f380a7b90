"""What stands on the page in the first moments of a server, while the core is being imported."""

from __future__ import annotations

import streamlit as st

from app import services
from app.decoding.models import Choice
from app.text import plain

from .fragment import fragment


def head() -> None:
    """The page's name, in the size and place it keeps."""
    st.title("Specdec Lab", anchor=False, width="content")


def about() -> None:
    """What the page is for, in two sentences."""
    st.markdown(
        "A small model **guesses** the next tokens, the large one **checks** them all in one pass. "
        "Same text, fewer passes: watch it happen, token by token."
    )


def show() -> None:
    """The head of the page, and the page itself as soon as it can be drawn."""
    head()
    about()
    _wait()


@fragment(run_every=0.3)
def _wait() -> None:
    if services.core_is_here(0.0):
        st.rerun()
    status = services.shelf().status(Choice())
    if status.state == "failed":
        st.error(plain(status.text), icon=":material/error:")
    else:
        st.info("The server has just started. The lab opens in a moment.", icon=":material/hourglass_top:")
