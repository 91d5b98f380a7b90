"""A page whose server is held up at the worst moment: between a whole run and the following run of a fragment.

`?bare=1` uses Streamlit's own fragment instead of ours. Started by test_fragment.
"""

from __future__ import annotations

import time

import streamlit as st
from streamlit.runtime import get_instance

from app.ui.fragment import fragment

HELD_S = 1.0

runs = st.session_state.get("runs", 0)
st.session_state.runs = runs + 1
st.button("Whole")
if runs:
    time.sleep(HELD_S)  # here the test presses the fragment's button, still on screen from the previous run
    loop = get_instance()._get_async_objs().eventloop
    loop.call_soon_threadsafe(time.sleep, HELD_S)  # nothing leaves the server until both runs are over


@(st.fragment if "bare" in st.query_params else fragment)  # noqa: TID251
def part() -> None:
    st.session_state.pressed = st.session_state.get("pressed", 0) + st.button("Part")
    st.caption(f"pressed {st.session_state.pressed}")


part()
if runs:
    st.markdown("directly behind")
    st.markdown("further behind")
