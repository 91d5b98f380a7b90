"""The library: the visitor's own runs and the recorded examples, opened in the player, compared, shared, imported."""

from __future__ import annotations

import streamlit as st

from app import services
from app.lanes import links
from app.library import rows
from app.player import CURSOR
from app.records import access as entries
from app.records import examples as recorded
from app.records import listing, visitor
from app.records.examples import Example
from app.running import corner
from app.running import held as tools
from app.running.flow import draw
from app.text import count, plain
from app.ui import address, presenter, quirks, reveal, widgets
from app.ui.fragment import fragment
from app.ui.state import State, state

PER_PAGE = 20
SHOWN = listing.MOST_SHOWN
# Keep the compare button in sight of the cards on which runs are chosen, below Streamlit's own header.
STYLE = """<style>
:--layout:has(> .st-key-choice) { position: sticky; top: 3.75rem; z-index: 10; }
.st-key-compare { background: var(--page); padding-block: 0.5rem; }
</style>"""

library = services.library()
me = visitor.of_session()


def listed(key: str) -> list[str]:
    """The runs that an address key names, without duplicates."""
    return list(dict.fromkeys(name for name in st.query_params.get(key, "").split(",") if name))


presenter.dress("library")
if state.opened != "library":
    values, _ = links.values(address.params(), listing.TABLE)
    address.fill(listing.TABLE, values)
    state.complaints, state.opened = listing.problems(address.params(), CURSOR), "library"
st.html(quirks.css(rows.STYLE + STYLE))
reveal.draw()
named = listed("run")[:SHOWN]
found = [(key, entries.open_one(key, me, library)) for key in named]
shown = [entry for _, entry in found if entry is not None]
head, words = st.columns([5, 2.3], vertical_alignment="center")
with head, st.container(key="title"):
    st.title("Library", anchor=False)
    st.markdown(
        "Every run you finish is kept here automatically. Open one to step through it again, or compare several."
    )
with words:
    corner.draw("library")

for problem in state.complaints:
    st.warning(plain(problem), icon=":material/link_off:")
if strange := sum(entries.open_one(key, me, library) is None for key in listed("picked")[: 2 * SHOWN]):
    st.warning(
        f"The link chooses {count(strange, 'run')} for comparison that cannot be opened here; the others are selected.",
        icon=":material/search_off:",
    )


def opened(key: str) -> None:
    """Show a run from its beginning."""
    tools.close(CURSOR)
    address.put("run", key)
    reveal.ask("open")


def picked() -> list[str]:
    """The runs chosen for comparison that can be opened, in the order in which they were chosen."""
    keys = listed("picked")
    return [key for key in keys[: 2 * SHOWN] if entries.open_one(key, me, library)]


def ticked(key: str, box: str) -> None:
    """Add a run to the comparison or remove it, as its checkbox says; a checkbox may report the same state twice."""
    address.catch_up()
    keys = picked()
    if not st.session_state[box]:
        keys = [other for other in keys if other != key]
    elif key not in keys:
        keys.append(key)
    address.put("picked", ",".join(keys) or None)


def compare() -> None:
    """Show the chosen runs side by side."""
    address.catch_up()
    keys = picked()
    tools.close(CURSOR)
    address.put("run", ",".join(keys))
    reveal.ask("open")


def unpick() -> None:
    """Clear the selection."""
    address.put("picked", None)


@fragment
def stage() -> None:
    """The player with the open run, and its actions."""
    one = shown[0] if len(shown) == 1 else None
    here = [entries.measured_here(entry) for entry in shown]
    some = ", some of them measured here" if any(here) and not all(here) else ""
    shelf = st.container(horizontal=True)  # filled last: one of its links points to the player's position
    draw(
        ",".join(entry.key for entry in shown),
        mode="replay",
        compared=one is not None,
        traces=entries.traces(shown, me, library, inline=not visitor.is_remembered()),
        provenance="measured" if all(here) else "recorded",
        provenance_note=entries.origin(one) if one else f"each in a run of its own{some}",
        opens=one.source.opens if one and isinstance(one.source, Example) else None,
        present=presenter.presenting(),
        key="library-player",
    )
    if presenter.presenting():
        return
    with shelf:
        if one and entries.is_mine(one):
            tools.draw(one, library, CURSOR)
        tools.downloads(shown, me, library)
    rows.table(shown)


def open_runs() -> None:
    """What the address names, or why it cannot be shown."""
    if missing := sum(entry is None for _, entry in found):
        alone = missing == len(found) == 1
        which = "This run" if alone else f"{missing} of these runs" if missing > 1 else "One of these runs"
        st.warning(
            f"{which} cannot be opened here: deleted, no longer shared, or owned by someone else.",
            icon=":material/search_off:",
        )
    if not shown:
        return
    if reason := listing.together(shown):
        st.warning(plain(reason), icon=":material/block:")
        return
    if presenter.presenting():
        stage()
        return
    with st.container(border=True, key="open"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            title = shown[0].title if len(shown) == 1 else f"Side by side: “{entries.start(shown[0].prompt)}”"
            st.subheader(plain(title), anchor=False, width="content")
            st.button("Close", icon=":material/close:", on_click=tools.close, args=(CURSOR,), key="close")
        for entry in shown:
            if said := entries.remark(entry):
                st.caption(plain(said))
        if len(shown) > 1:
            st.caption(
                "These lanes are from different runs, each on its own clock at its own time. The table below "
                "shows each lane against plain decoding in its own run."
            )
        stage()


def own_runs(words: str, proposer: str, order: str) -> None:
    """The visitor's runs, one page at a time."""
    mine = [entries.of_saved(saved) for saved in library.runs_of(me)]
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Your runs", anchor=False, width="content")
        tools.import_box(library)
    tools.import_results()
    if not mine:
        st.info(
            "Nothing here yet. Press Run in the Lab, and the recorded run appears here; or import a trace. "
            "The recorded examples below can be opened at once.",
            icon=":material/inbox:",
        )
        st.page_link("app_pages/lab.py", label="Go to the Lab", icon=":material/science:")
        return
    if library.is_full(me):
        st.warning(
            "Your library is full of named, shared and imported runs, so new ones are not kept. Delete some to make "
            "room.",
            icon=":material/warning:",
        )
    found = listing.find(mine, words, proposer, order)
    used = f"{rows.size(library.size(me))} of {rows.size(library.limits.owner_bytes)}"
    kept = "kept on this server" if library.lasting else "kept until this server stops"
    shown = "" if len(found) == len(mine) else f"{len(found)} of "
    st.caption(
        f"{shown}{count(len(mine), 'run')}, {used}, {kept}. The oldest make room for new ones, "
        "unless they are named, shared or imported."
    )
    if not found:
        st.info("None of your runs match the search. Clear it to see them all.", icon=":material/search_off:")
    pages = max(1, -(-len(found) // PER_PAGE))
    at = st.pagination(pages, key=State.sheet.key) if pages > 1 else 1
    for entry in found[(at - 1) * PER_PAGE : at * PER_PAGE]:
        rows.row(entry, chosen, opened, ticked)


def examples(words: str, proposer: str) -> None:
    """The bundled examples, in their own order."""
    everything = [entries.of_example(example) for example in recorded.examples()]
    found = [entry for entry in everything if listing.find([entry], words, proposer, "newest")]
    if everything and not found:
        st.caption("No recorded example matches the search.")
    origins = plain(entries.origins(everything))
    for kind, title, about in (
        (
            "proposer",
            "Recorded examples",
            f"One for each proposer; they need no model. Recorded on: {origins}.",
        ),
        (
            "lesson",
            "Lessons from failure",
            "Slower, wasted, missed, changed: what goes wrong, and what it looks like.",
        ),
    ):
        cards = [entry for entry in found if entry.source.kind == kind]
        if cards:
            st.subheader(title, anchor=False)
            st.caption(about)
            with st.grid("auto", min_column_width=300, gap="small"):
                for entry in cards:
                    rows.card(entry, chosen, opened, ticked)


if named:
    open_runs()
if not shown:
    presenter.nothing_to_show()

chosen = picked()
apart = listing.together([entry for key in chosen if (entry := entries.open_one(key, me, library))])
with st.container(key="search"):
    searching, filtering, ordering = st.columns([3, 1.5, 1.5], vertical_alignment="bottom")
with searching:
    sought = st.text_input(
        "Search",
        key=State.q.key,
        max_chars=100,
        icon=":material/search:",
        placeholder="prompt, name, proposer, rule or model",
    )
with filtering:
    who = widgets.pick("Proposer", listing.proposer_titles(), State.who.key, "Only runs with this proposer.")
with ordering:
    sort = widgets.pick("Order", listing.ORDERS, State.sort.key, "Sorts your own runs.")
# Always in the layout, even when empty: Streamlit would otherwise redraw the cards below it.
with st.container(key="choice"):
    if chosen and not presenter.presenting():
        with st.container(horizontal=True, vertical_alignment="center", key="compare"):
            st.button(
                f"Compare {count(len(chosen), 'run')}",
                type="primary",
                icon=":material/compare:",
                on_click=compare,
                disabled=len(chosen) < 2 or apart is not None,
                key="compare-now",
                help="Shows the chosen runs side by side in the player.",
            )
            st.button("Clear selection", on_click=unpick, key="unpick")
            if len(chosen) < 2:
                st.caption("Choose one more run of the same prompt.")
            elif apart:
                st.caption(f":material/block: {plain(apart)}")
if not visitor.is_remembered() and not presenter.presenting():
    st.caption(
        ":material/cookie_off: Your browser does not keep this server's cookie, so runs made in this tab are listed "
        "in this tab only, until it is closed or reloaded."
    )
if not presenter.presenting():
    own_runs(sought, who, sort)
    examples(sought, who)
address.write(listing.TABLE)
