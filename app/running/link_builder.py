"""The teacher's link: the current page without distracting parts, or as a presentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from app import services
from app.lanes import links
from app.records import access as entries
from app.records import visitor
from app.records.database import Unavailable
from app.records.store import Full
from app.ui import presenter, quirks
from app.ui.fragment import fragment
from app.ui.state import State, state
from app.ui.widgets import switch

from .by_link import find_run, only_here

USUAL = {  # ticked at first
    "lab": ("settings", "link"),
    "compare": ("settings", "link"),
    "library": ("search", "own", "examples", "link"),
}
BRINGS = {
    "lab": ["the prompt", "the settings"],
    "compare": ["the prompt", "the lanes", "the settings"],
    "library": ["the search", "the order"],
}
RUN = "the run at this position"


@fragment
def draw(page: str) -> None:
    """What to hide on a page, and the link that does so."""
    if st.button(
        "Present now",
        icon=":material/present_to_all:",
        key=f"present_now_{page}",
        on_click=presenter.enter,
        help="Only the player, in large type, controlled by keys. Escape goes back.",
    ):
        quirks.rerun()
    st.markdown("**A link with less on the page**")
    away = st.pills(
        "Hide",
        list(links.PARTS[page]),
        format_func=links.PARTS[page].__getitem__,
        selection_mode="multi",
        default=list(USUAL[page]),
        key=f"hide_parts_{page}",
    )
    present = switch(
        "As a presentation", "Opens only the player, in large type.", key=f"link_presents_{page}"
    )
    own = _own()
    if own:
        _say_for_whom(page, own)
    shared = {key: opens for key, opens in own.items() if opens}
    st.code(link(page, away, present, shared), language=None, wrap_lines=True)
    only_here()
    *first, last = [*BRINGS[page], *([RUN] if _brings_run() else [])]
    st.caption(
        f"It includes {', '.join(first)} and {last}. What is hidden keeps its settings. "
        "This protects nothing: anyone can change the link."
    )
    if page != "library" and len(state.prompt) > links.MAX_PROMPT_IN_LINK:
        st.caption(
            f":material/info: A prompt of more than {links.MAX_PROMPT_IN_LINK:,} characters is left out of the link."
        )


def _own() -> dict[str, str | None]:
    """The visitor's own finished runs that the address names, each with its shared link; None before it has one."""
    me, found = visitor.of_session(), {}
    for key in st.query_params.get("run", "").split(","):
        saved, run = services.library().get(me, key), services.runs().get(key)
        if saved is not None:
            found[key] = saved.link
        elif run is not None and run.owner == me and run.finished and run.ends:
            found[key] = None  # the library will have it in a moment
    return found


def _brings_run() -> bool:
    """Whether a run that the address names can be included."""
    me, library = visitor.of_session(), services.library()
    keys = st.query_params.get("run", "").split(",")
    return any(find_run(key) or entries.open_one(key, me, library) for key in keys)


def _say_for_whom(page: str, own: Mapping[str, str | None]) -> None:
    """Who can open the link's runs and for how long, and the button that makes it permanent."""
    one = len(own) == 1
    runs, them = ("this run", "it") if one else ("these runs", "them")
    for_good = "" if services.library().lasting else ", until this server stops"
    if all(own.values()):
        st.markdown(f"The link shows {runs} to anyone who has it{for_good}. Revoke that in the Library.")
        return
    if State.not_shared.take():
        st.warning(
            "The library could not keep the run, so the link is lost when the run is.",
            icon=":material/warning:",
        )
        return
    st.markdown(f"The link shows {runs} to nobody else until you share {them}.")
    st.button(
        "Share the run" if one else "Share the runs",
        type="primary",
        icon=":material/link:",
        key=f"share_in_link_{page}",
        on_click=_share,
        args=([key for key, opens in own.items() if not opens],),
        help="Whoever has the link can read and replay. Nobody can change anything.",
    )


def _share(keys: Iterable[str]) -> None:
    try:
        opened = [services.library().share(visitor.of_session(), key) for key in keys]
    except (Unavailable, Full):  # errors in a callback do not show on the page
        opened = [None]
    state.not_shared = not all(opened)


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
