"""The teacher's link: this page as it stands, without the parts that would distract, or as a presentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from . import links, presenter
from .fragment import fragment

USUAL = {  # what is ticked at first
    "lab": ("settings", "link"),
    "compare": ("settings", "link"),
    "library": ("search", "own", "examples", "link"),
}
BRINGS = {
    "lab": "the prompt, the settings and the place in the run",
    "compare": "the prompt, the lanes, the settings and the place in the run",
    "library": "the open run and the place in it",
}


@fragment
def draw(page: str, runs: Mapping[str, str] | None = None, note: str | None = None) -> None:
    """What of a page to hide, and the link that does it.

    Args:
        runs: what the link says instead of a run's own id, for those that others open by another name.
        note: what else has to be said about the link.
    """
    if st.button(
        "Present now",
        icon=":material/present_to_all:",
        key=f"present_now_{page}",
        on_click=presenter.enter,
        help="The player alone, in large type, moved with the keys. Escape leads back.",
    ):
        st.rerun()
    st.markdown("**A link with less on the page**")
    away = st.pills(
        "Hide",
        list(links.PARTS[page]),
        format_func=links.PARTS[page].__getitem__,
        selection_mode="multi",
        default=list(USUAL[page]),
        key=f"hide_parts_{page}",
    )
    present = st.toggle(
        "As a presentation", key=f"link_presents_{page}", help="Opens with the player alone, in large type."
    )
    st.code(link(page, away, present, runs), language=None, wrap_lines=True)
    st.caption(
        f"It brings {BRINGS[page]}. What is hidden keeps its settings. "
        "This is no protection: anyone can change the link."
    )
    if note:
        st.caption(f":material/info: {note}")
    if page != "library" and len(st.session_state.get("prompt", "")) > links.MAX_PROMPT_IN_LINK:
        st.caption(
            f":material/info: A prompt of more than {links.MAX_PROMPT_IN_LINK:,} characters stays out of the link."
        )


def link(page: str, away: Iterable[str], present: bool, runs: Mapping[str, str] | None = None) -> str:
    """The address of this page with those parts hidden."""
    chosen, others = set(away), runs or {}
    given = [
        (key, value)
        for key in st.query_params
        if key not in ("hide", "present")
        for value in st.query_params.get_all(key)
    ]
    given = [
        (key, ",".join(others.get(run, run) for run in value.split(",")) if key == "run" else value)
        for key, value in given
    ]
    if chosen:
        given.append(("hide", ",".join(part for part in links.PARTS[page] if part in chosen)))
    if present:
        given.append(("present", "1"))
    query = urlencode(given, safe=",")
    page_url = urlsplit(st.context.url or "")
    return urlunsplit((page_url.scheme, page_url.netloc, page_url.path or "/", query, ""))
