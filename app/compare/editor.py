"""The lanes on the page: a card for each, with its settings and actions.

The session and the address hold the lanes; the widgets only reflect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from app.choosing import controls, current, presets
from app.choosing import form as widgets
from app.decoding.run import Request
from app.lanes import lane as core
from app.lanes import naming, page_settings
from app.lanes.fields import NameField, NamesField
from app.lanes.lane import LETTERS, Lane
from app.player import CURSOR
from app.text import plain
from app.ui import frame, quirks
from app.ui.chip import heading
from app.ui.state import State, state
from specdec_core.foundations.errors import SettingsError, SpecdecError
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import form, whatif

RACE = "Race"
WHAT_IF = "What if"
TABS = (RACE, "Table", "Charts", "Prompts", WHAT_IF, "Export")
TABLE = (
    NameField("tab", titles=lambda: {name: name for name in TABS}),
    NamesField(
        "sweep_families",
        titles=lambda: {each.name: each.title for each in presets.offered(current.audience())},
    ),
    *page_settings.SWEEP,
)
FURTHER = ("lane", "repeats", "sweep", *whatif.KEYS, *whatif.OLD_KEYS, *CURSOR)  # read elsewhere
# On a phone a lane is one line: chip, proposer, unusual settings, and its two buttons as icons.
STYLE = """<style>
[class*="st-key-lane"][class*="-refused"] p { font-size: 0.875rem; line-height: 1.4; }
@media (max-width: 640px) {
  [class*="st-key-lane-"]:not(.st-key-lane-form) {
    flex-flow: row wrap; align-items: center; gap: 0.25rem 0.5rem; padding: 0.3rem 0.6rem; min-height: 2.9rem;
  }
  [class*="st-key-lane-"]:not(.st-key-lane-form) > * { width: auto !important; flex: 0 0 auto; min-width: 0; }
  [class*="st-key-lane-"]:not(.st-key-lane-form) > :first-child { max-width: 62%; }
  [class*="st-key-lane-"]:not(.st-key-lane-form) > :nth-child(2) { flex: 1 1 0; }
  [class*="st-key-lane-"] > * strong,
  [class*="st-key-lane-"]:not(.st-key-lane-form) :--caption p {
    overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  }
  [class*="st-key-lane-"] > :has([class*="-refused"]) { order: 1; flex: 1 0 100%; }
  [class*="st-key-lane"][class*="-change"] button { min-height: 2rem; padding: 0 0.5rem; }
  [class*="st-key-lane"][class*="-change"] button p { position: absolute; clip-path: inset(50%); }
  [class*="st-key-lane"][class*="-more"] button, .st-key-add_lane button { min-height: 2rem; }
}
</style>"""
ACTIONS = {"copy": "Duplicate", "left": "Move left", "right": "Move right", "remove": "Remove"}


def start() -> None:
    """On the page's first run: lanes, settings and prompt from the address, and its errors; then follow the models."""
    params = widgets.open_page("compare", TABLE, FURTHER)
    if params is None:
        _follow()
        return
    named = params.get("lane", [])
    found, complaints = core.from_address(named, usual())
    if not named and state.lanes:  # back from another page
        found = lanes()
    _replace(found)
    state.usual_lanes = usual()
    state.last_picked.pop(State.tab.key, None)
    asked = params.get(State.tab.key, [RACE])[-1]
    # with a run, its tab says this itself
    if asked not in TABS or (asked == WHAT_IF and "run" not in params):
        complaints = whatif.nonsense(whatif.choices_in(params), state.watched.values()) + complaints
    state.complaints = state.complaints + complaints


def usual() -> tuple[Lane, ...]:
    """The initial lanes for the chosen models."""
    return core.usual([current.begins(name) for name in current.proposers()])


def _follow() -> None:
    """If the models changed and the lanes were the usual ones, switch to the new usual ones, unless somebody is at work
    on them."""
    before, state.usual_lanes = state.usual_lanes, usual()
    if before not in (None, usual()) and tuple(lanes()) == before and state.editing is None:
        _replace(usual())


def lanes() -> list[Lane]:
    """All lanes but the plain one, in their order."""
    return list(state.lanes.values())


def write() -> None:
    """At the end of the page's run: let its address say what is chosen."""
    texts = core.to_address(lanes(), usual())
    widgets.write_page(TABLE, {"lane": texts} if texts else {}, ("lane",))


def request(shared: Settings, missing: Mapping[str, str | None]) -> Request:
    """What Run requests: plain decoding and all lanes.

    Raises:
        SpecdecError: one sentence about the first invalid setting.
    """
    subject = controls.subject()
    for number, (name, lane) in enumerate(state.lanes.items(), start=1):
        if why_not := form.broken(name) or lane.refusal(shared, missing):
            raise SettingsError(f"Lane {LETTERS[number]}: {why_not}")
    found = lanes()
    return Request(
        state.prompt,
        (shared, *(lane.settings(shared) for lane in found)),
        naming.labels(found),
        subject,
        chat=current.wraps(),
        system=current.system_line(),
        names=naming.names(found),
    )


def asks_for(shown: Request, shared: Settings, missing: Mapping[str, str | None]) -> bool:
    """Whether Run would request the same again."""
    try:
        asked = request(shared, missing)
        return (asked.lanes, asked.choice) == (shown.lanes, shown.choice) if shown.branch else asked == shown
    except SpecdecError:
        return False


def presets_menu() -> None:
    """Comparisons that show a known effect."""
    st.menu_button(
        "Ready-made comparisons",
        [preset.name for preset in core.PRESETS],
        format_func={preset.name: preset.title for preset in core.PRESETS}.__getitem__,
        key=State.ready_made.key,
        icon=":material/view_week:",
        on_click=_take_preset,
        help="Lanes that show a known effect. They replace yours.",
    )


def cards(shared: Settings, missing: Mapping[str, str | None]) -> None:
    """Draw the lanes' cards; one that cannot run says why."""
    count = len(state.lanes)
    st.html(quirks.css(STYLE))
    with st.grid(min_column_width=190, gap="small"):
        with st.container(border=True, height="stretch", gap="xsmall", key="lane-A"):
            st.html(heading(0, PROPOSERS["none"].title))
            st.caption("The measured baseline. It is in every comparison.")
        for number, (name, lane) in enumerate(state.lanes.items(), start=1):
            with st.container(border=True, height="stretch", gap="xsmall", key=f"lane-{LETTERS[number]}"):
                st.html(heading(number, PROPOSERS[lane.proposer].title))
                summary = " · ".join(naming.words(lane)) or "default settings"
                st.caption(plain(summary + (" · open below" if state.editing == name else "")))
                if not RULES[lane.rule].lossless:
                    st.badge("lossy", icon=":material/warning:", color="orange")
                if why_not := form.broken(name) or lane.refusal(shared, missing):
                    with st.container(key=f"{name}-refused"):
                        st.markdown(f":material/block: {plain(why_not)}")
                _buttons(name, number, count)
        if count < core.MAX_LANES_COMPARED - 1:
            with st.container(border=True, height="stretch", gap="xsmall", key="lane-more"):
                st.button(
                    "Add a lane",
                    icon=":material/add:",
                    key="add_lane",
                    type="tertiary",
                    on_click=_added,
                    help=f"Up to {core.MAX_LANES_COMPARED} lanes race side by side.",
                )
                st.caption("Any proposer, rule and length policy.")


def _buttons(name: str, number: int, count: int) -> None:
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(  # always the same element: it would otherwise lose the focus while its form is open
            "Change",
            key=f"{name}.change",
            icon=":material/tune:",
            on_click=_open,
            args=(None if state.editing == name else name,),
        )
        possible = {
            "copy": count < core.MAX_LANES_COMPARED - 1,
            "left": number > 1,
            "right": number < count,
            "remove": count > 1,
        }
        actions = [action for action, can in possible.items() if can]
        if len(actions) == 1:  # the keyboard cannot reach a menu's only entry
            (action,) = actions
            st.button(
                ACTIONS[action], key=f"{name}.only", type="tertiary", on_click=_act, args=(name, action)
            )
            return
        st.menu_button(
            "More",
            actions,
            format_func=ACTIONS.__getitem__,
            key=f"{name}.more",
            type="tertiary",
            on_click=_act,
            args=(name,),
        )


def _replace(found: Iterable[Lane]) -> None:
    """Set the lanes and close any form."""
    state.lanes, state.editing = {}, None
    for lane in found:
        _add(lane)


def _add(lane: Lane, after: str | None = None) -> str:
    """Append a lane, or insert it after another; returns its name. Names and widget keys are never reused."""
    state.lane_count += 1
    name, found = f"lane{state.lane_count}", {}
    for other, there in state.lanes.items():
        found[other] = there
        if other == after:
            found[name] = lane
    found.setdefault(name, lane)
    state.lanes = found
    return name


def _added() -> None:
    _open(_add(Lane()))


def _open(name: str | None) -> None:
    """Open that lane's form below the cards, and bring it into view; None closes the open one."""
    form.take()
    state.editing = name
    if name is not None:
        frame.reveal("lane-form")


def _act(name: str, action: str | None = None) -> None:
    """Apply an action to a lane; without `action`, the one chosen in its menu."""
    menu = f"{name}.more"
    action = action or st.session_state[menu]
    names = list(state.lanes)
    at = names.index(name)
    if action == "copy":
        _add(state.lanes[name], after=name)
    elif action == "remove":
        del state.lanes[name]
    elif action in ("left", "right"):
        other = at + (1 if action == "right" else -1)
        names[at], names[other] = names[other], names[at]
        state.lanes = {key: state.lanes[key] for key in names}


def _take_preset() -> None:
    chosen = next(preset for preset in core.PRESETS if preset.name == state.ready_made)
    _replace(chosen.lanes)
    if chosen.temperature is not None:
        state.temperature = chosen.temperature
    if found := presets.find(chosen.chat_prompt if current.wraps() else chosen.prompt):
        state.prompt = found.text
    state.look_for = chosen.look_for
