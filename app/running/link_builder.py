"""The teacher's link: the current page with its run, or as a presentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from app import services
from app.lanes import page_settings
from app.records import access as entries
from app.records import visitor
from app.records.database import Unavailable
from app.records.store import Full
from app.ui import address, presenter
from app.ui.fragment import fragment
from app.ui.state import State, state
from app.ui.widgets import switch

from .by_link import find_run, only_here

BRINGS = {
    "lab": ["the prompt", "the settings"],
    "compare": ["the prompt", "the lanes", "the settings"],
    "library": ["the search", "the order"],
}
RUN = "the run at this position"


@fragment
def draw(page: str) -> None:
    """The link to this page."""
    if st.button(
        "Present now",
        icon=":material/present_to_all:",
        key=f"present_now_{page}",
        on_click=presenter.enter,
        help="Only the player, in large type, controlled by keys. Escape goes back.",
    ):
        st.rerun()
    st.markdown("**A link to this page**")
    present = switch(
        "As a presentation", "Opens only the player, in large type.", key=f"link_presents_{page}"
    )
    own = _own()
    if own:
        _say_for_whom(page, own)
    shared = {key: opens for key, opens in own.items() if opens}
    st.code(link(present, shared), language=None, wrap_lines=True)
    only_here()
    *first, last = [*BRINGS[page], *([RUN] if _brings_run() else [])]
    st.caption(f"It includes {', '.join(first)} and {last}.")
    if page != "library" and len(state.prompt) > page_settings.MAX_PROMPT_IN_LINK:
        st.caption(
            f":material/info: A prompt of more than {page_settings.MAX_PROMPT_IN_LINK:,} characters is left out "
            "of the link."
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


def link(present: bool, runs: Mapping[str, str] | None = None) -> str:
    """The address of this page, with the `runs` by their shared links."""
    others, given = runs or {}, address.params()
    for key in ("hide", "present"):
        given.pop(key, None)
    if "run" in given:
        given["run"] = [",".join(others.get(run, run) for run in given["run"][-1].split(","))]
    if present:
        given["present"] = ["1"]
    page = urlsplit(st.context.url or "")
    return urlunsplit(
        (page.scheme, page.netloc, page.path or "/", urlencode(given, doseq=True, safe=","), "")
    )
