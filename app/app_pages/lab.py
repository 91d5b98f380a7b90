"""The lab: type a prompt, race plain decoding against a proposer, then walk through what happened."""

from __future__ import annotations

import streamlit as st

from app import services
from app.choosing import controls, current, model_picker, more, prompt, warming
from app.decoding.jobs import Busy
from app.decoding.models import Choice
from app.decoding.runs import Desk
from app.player import CURSOR
from app.records import access as entries
from app.records import visitor
from app.running import corner, headline, results
from app.running import held as tools
from app.running.stage import HERE, draw
from app.running.waiting import waiting
from app.text import plain
from app.ui import address, presenter
from app.ui.fragment import fragment
from specdec_core.errors import SpecdecError
from specdec_core.proposers import available
from specdec_core.rules import RULES


@st.cache_resource(scope="session", on_release=Desk.close, show_spinner=False)
def the_desk() -> Desk:
    """This session's run; closing the tab ends it."""
    return Desk(services.runs())


desk = the_desk()
presenter.dress("lab")
current.settle()
prompt.start_from_address(controls.choices())

head, words = st.columns([5, 1.25], vertical_alignment="center")
with head, st.container(key=presenter.box("title")):
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Specdec Lab", anchor=False, width="content")
        warming.show()
    st.markdown(
        "A small model **guesses** the next tokens, the large one **checks** them all in one pass. "
        "Same text, fewer passes: watch it happen, token by token."
    )
with words:
    corner.draw("lab")

if complaints := st.session_state.complaints:
    st.warning("  \n".join(plain(complaint) for complaint in complaints), icon=":material/link_off:")

models = model_picker.loaded()
with st.container(border=True, key="desk"):
    writing, choosing = st.columns([3, 2], gap="medium")
    with writing, st.container(key=presenter.box("prompt")):
        prompt.prompt_box()
    with choosing:
        with st.container(key=presenter.box("choices")):
            controls.essentials(available(models) if models else {})
        with st.container(horizontal=True, vertical_alignment="center", key=presenter.box("run")):
            asked = st.button(
                "Run",
                type="primary",
                icon=":material/play_arrow:",
                shortcut="Ctrl+Enter",
                key="go",
                help="Race plain decoding against the proposer on this prompt.",
            )
            stop_slot = st.container()
        notice = st.container()
    with st.expander("More settings", icon=":material/tune:", key=presenter.box("settings")):
        more.draw(models)

if asked:
    try:
        desk.start(controls.request())
    except (SpecdecError, Busy) as error:
        st.error(plain(str(error)), icon=":material/error:")
if desk.run is not None and desk.run.deleted:
    desk.run = None  # its visitor deleted it in the library
going = desk.run is not None and not desk.run.finished
if going and "run" not in st.query_params:  # the browser's way back leads to the page, not out of the run
    st.session_state.pop("noted", None)
# Not where the run starts: the script may be cut short there by another rerun, and the run would go on unseen.
if desk.run is not None and st.session_state.get("noted") != desk.run.id:
    address.put("run", desk.run.id)
    address.drop(("round", "node"))
    st.session_state.complaints = []
    st.session_state.noted = desk.run.id
with notice:
    if st.session_state.proposer != "none" and not RULES[st.session_state.rule].lossless:
        st.badge(plain(controls.rule_title(st.session_state.rule)), icon=":material/warning:", color="orange")
    if penalty := controls.usual_penalty():
        st.caption(f":material/repeat: With a repetition penalty of {penalty:g}; see More settings.")
    if not asked and (why_not := controls.refusal()):
        st.caption(f":material/block: {plain(why_not)}")

named = st.query_params.get("run")
shown = tools.held(named)
active = shown is not None and not shown.finished
stop_slot.button(
    "Stop",
    icon=":material/stop:",
    shortcut=None if presenter.presenting() else "Escape",  # there it leads back to the page
    key="stop_run",
    on_click=desk.stop,
    disabled=not going,
    help="Ends the run within one round; what was decoded until then is kept.",
)
kept = None
if shown is None and named is not None:
    kept = entries.open_one(named, visitor.of_session(), services.library())
    tools.let_go("Its settings are set here: press Run to repeat it.")

waiting(shown, active)
if shown is None and (status := services.shelf().status(Choice())).state == "failed":
    st.error(plain(status.text), icon=":material/error:")
if shown is not None and shown.error:
    st.error(plain(shown.error), icon=":material/error:")
if shown is not None:
    results.unkept(shown)

if shown is not None and not active and shown.ends and (said := controls.earlier(shown.request)):
    st.caption(f":material/history: {plain(said)}")

example = None
if shown is None and kept is None:
    # Of the family that is on its way, too: a recording needs no models, and does not change under its reader's eyes.
    family = model_picker.usual() if st.session_state.model == model_picker.AUTO else current.name()
    example = results.example(st.session_state.proposer, family)
if example is not None:
    if st.session_state.get("example_shown", example.id) != example.id:
        address.drop(CURSOR)
    st.session_state.example_shown = example.id
    if named is not None or not controls.asks_for(example.prompt, example.lane, example.family, example.chat):
        said = controls.recorded(example.prompt, example.lane)
        st.caption(f":material/history: {plain(said)}")


@fragment
def stage() -> None:
    """The player: live while a run goes on, then its whole record; before the first run a recorded one."""
    present = presenter.presenting()
    if active and shown is not None:
        seen = draw(
            shown.id,
            mode="live",
            events=shown.events_path,
            prompt=shown.before,
            present=present,
            **HERE,
        )
        if seen.done == shown.id:
            shown.wait(1.0)
            st.rerun()
    elif shown is not None and shown.ends:
        lanes = sorted(shown.ends)
        traces = [{"label": shown.request.labels[lane], "url": shown.trace_path(lane)} for lane in lanes]
        draw(shown.id, mode="replay", traces=traces, present=present, **HERE)
    elif kept is not None:
        draw(
            kept.key,
            mode="replay",
            traces=entries.traces(
                [kept], visitor.of_session(), services.library(), inline=not visitor.is_remembered()
            ),
            provenance="measured" if entries.measured_here(kept) else "recorded",
            provenance_note=entries.origin(kept),
            present=present,
        )
    elif example is not None:
        draw(
            example.id,
            mode="replay",
            traces=example.traces,
            provenance="recorded",
            provenance_note=example.origin,
            autoplay=True,
            present=present,
        )


stage()
if shown is not None and not active and shown.ends:
    parts = {"numbers": headline.show, "charts": results.charts, "download": results.downloads}
    for part, show in parts.items():
        if presenter.shows(part):
            show(shown)
