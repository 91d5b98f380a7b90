"""A new step, lesson or list begins at its top: Streamlit leaves the page where the one before it was scrolled to."""

from __future__ import annotations

import streamlit as st

from . import inventory_view, overview

KEY = "course-top"

# Streamlit calls this on each change of the data. The page's main part keeps what it showed; the keyboard goes there as
# well, so that Tab and the arrow keys begin with what is new.
_JS = """
export default function ({ data }) {
  const main = document.querySelector('[data-testid="stMain"]');
  if (!main || main.dataset.place === data.place) return;
  const before = main.dataset.place;
  main.dataset.place = data.place;
  if (before === undefined) return;
  main.scrollTop = 0;
  main.focus({ preventScroll: true, focusVisible: false });
}
"""

_component = st.components.v2.component("specdec_course_top", html="<i hidden>\n</i>", js=_JS)


def begin() -> None:
    """Go to the top where the page shows something else than before; within a step it stays where it is."""
    _component(key=KEY, data={"place": place()})


def place() -> str:
    """What is on show: the lesson and its step, the claims, a question, the sheets, or the list of lessons."""
    asked = [st.query_params.get(key, "") for key in (*overview.PARTS, "sheet") if key != inventory_view.AT]
    return " ".join([*asked, inventory_view.standing()])
