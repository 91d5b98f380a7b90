"""The teacher's link: this page as it stands, without the parts that would distract, or as a presentation."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

import streamlit as st

from . import links, presenter

USUAL = ("settings", "link")  # what is ticked at first


@st.fragment
def draw() -> None:
    """What to hide, and the link that does it."""
    st.button(
        "Present now",
        icon=":material/present_to_all:",
        on_click=presenter.enter,
        help="The player alone, in large type, moved with the keys. Escape leads back.",
    )
    st.markdown("**A link with less on the page**")
    away = st.pills(
        "Hide",
        list(links.PARTS),
        format_func=links.PARTS.__getitem__,
        selection_mode="multi",
        default=list(USUAL),
        key="hide_parts",
    )
    present = st.toggle(
        "As a presentation", key="link_presents", help="Opens with the player alone, in large type."
    )
    st.code(link(away, present), language=None, wrap_lines=True)
    st.caption(
        "It brings the prompt, the settings and the place in the run. What is hidden keeps its settings. "
        "This is no protection: anyone can change the link."
    )
    if len(st.session_state.get("prompt", "")) > links.MAX_PROMPT_IN_LINK:
        st.caption(
            f":material/info: A prompt of more than {links.MAX_PROMPT_IN_LINK:,} characters stays out of the link."
        )


def link(away: Iterable[str], present: bool) -> str:
    """The address of this page with those parts hidden."""
    chosen = set(away)
    given = [
        (key, value)
        for key in st.query_params
        if key not in ("hide", "present")
        for value in st.query_params.get_all(key)
    ]
    if chosen:
        given.append(("hide", ",".join(part for part in links.PARTS if part in chosen)))
    if present:
        given.append(("present", "1"))
    query = urlencode(given, safe=",")
    return f"{(st.context.url or '').rstrip('/')}/{'?' if query else ''}{query}"
