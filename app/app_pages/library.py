"""The library: the visitor's own runs and the recorded examples, opened in the player, compared, shared, imported."""

from __future__ import annotations

import streamlit as st

from app.lanes import page_settings
from app.library import lists, opened, picks, rows
from app.player import CURSOR
from app.records import listing, visitor
from app.running import header_links
from app.text import count, plain
from app.ui import address, presenter, quirks, widgets
from app.ui.state import State, state

# Keep the compare button in sight of the cards on which runs are chosen, below Streamlit's own header.
STYLE = """<style>
:--layout:has(> .st-key-choice) { position: sticky; top: 3.75rem; z-index: 10; }
.st-key-compare { background: var(--page); padding-block: 0.5rem; }
</style>"""

presenter.dress()
if state.opened != "library":
    params = address.params()
    values, state.complaints = page_settings.read(params, listing.TABLE, ("picked", *CURSOR))
    address.fill(listing.TABLE, values)
    state.opened = "library"
st.html(quirks.css(rows.STYLE + STYLE))
head, words = st.columns([5, 2.3], vertical_alignment="center")
with head, st.container(key="title"):
    st.title("Library", anchor=False)
    st.markdown(
        "Every run you finish is kept here automatically. Open one to step through it again, or compare several."
    )
with words:
    header_links.draw("library")

for problem in state.complaints:
    st.warning(plain(problem), icon=":material/link_off:")
if strange := sum(entry is None for _, entry in picks.listed("picked", 2 * listing.MOST_SHOWN)):
    st.warning(
        f"The link chooses {count(strange, 'run')} for comparison that cannot be opened here; the others are selected.",
        icon=":material/search_off:",
    )
opened.draw(picks.listed("run", listing.MOST_SHOWN))

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
chosen = picks.picked()
picks.draw(chosen)
keys = [entry.key for entry in chosen]
if not presenter.presenting():
    if not visitor.is_remembered():
        st.caption(
            ":material/cookie_off: Your browser does not keep this server's cookie, so runs made in this tab are "
            "listed in this tab only, until it is closed or reloaded."
        )
    lists.own_runs(sought, who, sort, keys)
    lists.examples(sought, who, keys)
address.write(listing.TABLE)
