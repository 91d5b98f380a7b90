"""The comparison: up to six lanes on one prompt and one clock, then where their time and their guesses went."""

from __future__ import annotations

import streamlit as st

from app import services
from app.choosing import controls, current, model_picker, more, prompt, warming
from app.compare import editor, form, race, result
from app.decoding.jobs import Busy
from app.decoding.runs import Desk
from app.lanes import links
from app.running import corner
from app.running import held as tools
from app.running.waiting import waiting
from app.text import plain
from app.ui import address, presenter
from app.ui.glossary import define
from app.ui.widgets import number
from specdec_core.errors import SpecdecError
from specdec_core.proposers import available


@st.cache_resource(scope="session", on_release=Desk.close, show_spinner=False)
def the_desk() -> Desk:
    """This session's comparison; closing the tab ends it."""
    return Desk(services.runs())


desk = the_desk()
presenter.dress("compare")
current.settle()
editor.start("compare")
editor.follow()
form.take()

head, words = st.columns([5, 1.25], vertical_alignment="center")
with head, st.container(key=presenter.box("title")):
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Compare", anchor=False, width="content")
        warming.show()
    st.markdown("The same prompt, the same seed, the same machine: race ways of guessing against each other.")
with words:
    corner.draw("compare")

if complaints := st.session_state.complaints:
    st.warning("  \n".join(plain(complaint) for complaint in complaints), icon=":material/link_off:")

models = model_picker.loaded()
missing = available(models) if models else {}
with st.container(border=True, key="desk"):
    writing, choosing = st.columns([3, 2], gap="medium")
    with writing, st.container(key=presenter.box("prompt")):
        prompt.prompt_box()
    with choosing:
        with st.container(key=presenter.box("choices")):
            left, right = st.columns(2, gap="medium")
            with left:
                number("slider", "Temperature", links.TEMPERATURE, 0.05, define("Greedy"))
            with right:
                number(
                    "number", "New tokens", links.TOKENS, 1, "The maximum number of tokens each lane writes."
                )
        with st.expander("Models, text and seed", icon=":material/tune:", key=presenter.box("settings")):
            model_picker.draw()
            more.text_settings(models)
            more.dice_settings(models)
        with st.container(horizontal=True, vertical_alignment="center", key=presenter.box("run")):
            asked = st.button(
                "Run",
                type="primary",
                icon=":material/play_arrow:",
                shortcut="Ctrl+Enter",
                key="go",
                on_click=form.close,
                help="Race all lanes on this prompt.",
            )
            stop_slot = st.container()
        if penalty := controls.usual_penalty():
            st.caption(f":material/repeat: With a repetition penalty of {penalty:g}; see the settings.")

shared = controls.plain_lane()
with st.container(key=presenter.box("lanes")):
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Lanes", anchor=False, width="content")
        editor.presets_menu()
    editor.cards(shared, missing)
    form.draw(missing)
    if told := st.session_state.get("told"):
        st.caption(f":material/visibility: {plain(told)}")
editor.keep_in_address()

if asked:
    try:
        desk.start(editor.request(shared, missing))
    except (SpecdecError, Busy) as error:
        st.error(plain(str(error)), icon=":material/error:")
going = desk.run is not None and not desk.run.finished
if going and "run" not in st.query_params:  # the browser's way back leads to the page, not out of the run
    st.session_state.pop("compared", None)
# Not where the run starts: the script may be cut short there by another rerun, and the run would go on unseen.
if desk.run is not None and st.session_state.get("compared") != desk.run.id:
    address.put("run", desk.run.id)
    race.forget_cursor()
    address.put("repeats", None)
    st.session_state.complaints = []
    st.session_state.compared = desk.run.id

shown = tools.held(st.query_params.get("run"))
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
waiting(shown, active)
if shown is None:
    presenter.nothing_to_show()
    if "run" in st.query_params:
        tools.let_go("Its lanes are set here: press Run to repeat it.")
    elif not presenter.presenting():
        st.caption("Press Run and watch the lanes side by side. The table and the charts follow.")
else:
    if shown.error:
        st.error(plain(shown.error), icon=":material/error:")
    if not active and shown.ends and not editor.asks_for(shown.request, shared, missing):
        st.caption(
            ":material/history: This result is from other lanes or settings. Press Run for those above."
        )
    result.show(shown, active)
