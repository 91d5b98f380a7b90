"""What is in the files of a head or a model: looked up on request, in a process of its own."""

from __future__ import annotations

import threading
from typing import Any

import streamlit as st

from app import services
from app.decoding.models import ModelChoice, permitted
from app.text import plain
from app.ui import tables
from specdec_core.foundations.errors import SpecdecError

AT_ONCE = threading.BoundedSemaphore(2)  # each takes a process and the head's size in memory
ASKED, FOUND = "inside-asked", "inside-found"


def draw(parts: set[str]) -> None:
    """A field for a name, a button, and what was found; `parts` are the names that every server knows."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "What is in this head?",
            key=ASKED,
            placeholder="owner/name",
            help="A head, a draft or a model, as owner/name or a folder below the models folder: who wrote its files, "
            "what each tensor is for, which of the target's layers it reads, and whether it loads here.",
        )
        pressed = st.button(
            "Look", icon=":material/search:", disabled=not st.session_state.get(ASKED, "").strip()
        )
    if pressed:
        with st.spinner("Reading the files"):
            st.session_state[FOUND] = _looked(st.session_state[ASKED].strip(), parts)
    found = st.session_state.get(FOUND)
    if isinstance(found, str):
        st.warning(plain(found), icon=":material/error:")
    elif found:
        show(found)


def _looked(name: str, parts: set[str]) -> dict[str, Any] | str:
    """The report, or the sentence that says why there is none."""
    if not AT_ONCE.acquire(blocking=False):
        return "Others are looking into files just now. Try again in a moment."
    try:
        resolved = permitted(ModelChoice(name), services.operator(), parts).target
        return services.decoder().inspect(resolved or name)
    except SpecdecError as error:
        return str(error)
    finally:
        AT_ONCE.release()


def show(report: dict[str, Any]) -> None:
    """A report of `specdec_measure.inspect`."""
    mark = ":material/check_circle:" if report["loads"] else ":material/block:"
    st.markdown(f"**{plain(report['name'])}** holds {plain(report['title'])}.")
    st.caption(f"{mark} {plain(report['verdict'])}")
    tables.draw(
        [{"": name, "In its files": value} for name, value in report["facts"]], "Facts about the files"
    )
    rows = [
        {
            "What for": part["purpose"],
            "Tensors": f"{part['tensors']:,}",
            "Numbers": f"{part['parameters']:,}",
            "Stored as": part["dtype"],
            "Names": part["names"],
        }
        for part in report["parts"]
    ]
    if rows:
        tables.draw(rows, "Tensors by what they are for")
