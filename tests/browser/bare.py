"""Streamlit's own behaviour, in the app's theme without the styles of app/ui/quirks.py. Started by test_quirks."""

from __future__ import annotations

import streamlit as st

from app.ui import quirks

LINES = 100

component = st.components.v2.component("bare", html="<p class='inside'>inside</p>")
unseen = st.components.v2.component("unseen", html="<i hidden>\n</i>")


@quirks.fragment
def nothing() -> None:
    """Draw nothing."""


def turn() -> None:
    """Show another page in place of this one."""
    st.session_state.place = st.session_state.get("place", 0) + 1


st.button("Primary", type="primary")
with st.popover("Open"):
    st.button("Inside", type="primary")
st.pills("Pills", ["a", "b"], default="a")
st.segmented_control("Segments", ["c", "d"], default="c")
st.code("from here import there  # why", language="python")
with st.container(key="with-nothing"):
    st.text("before")
    nothing()
    st.text("after")
component()
with st.container(key="with-unseen"):
    st.text("before")
    with st.container(key="frame"):
        unseen()
    st.text("after")
st.button("Keyed", shortcut="Ctrl+K")
st.text_area("Words")
st.slider("Slider", 0, 100)
for line in range(LINES):
    st.text(f"place {st.session_state.get('place', 0)}, line {line}")
st.button("Turn", on_click=turn)
