"""The comparison: up to six lanes on one prompt and one clock, then where their time went and how they guessed."""

from __future__ import annotations

import streamlit as st

from app.choosing import controls, model_picker, more_settings, prompt, warming
from app.compare import editor, form, result
from app.player import CURSOR
from app.running import flow, header_links
from app.text import plain
from app.ui import presenter
from app.ui.state import state

presenter.dress()
editor.start()
form.take()
run = flow.Flow("compare", forgets=(*CURSOR, "repeats"))

head, words = st.columns([5, 2.3], vertical_alignment="center")
with head, st.container(key="title"):
    with st.container(horizontal=True):  # its title has no space above it, like the lab's
        st.title("Compare", anchor=False, width="content")
    st.markdown("The same prompt, the same seed, the same machine: race ways of guessing against each other.")
with words:
    header_links.draw("compare")

if complaints := state.complaints:
    st.warning("  \n".join(plain(complaint) for complaint in complaints), icon=":material/link_off:")

models = model_picker.loaded()
missing = models.card.missing if models else {}
with st.container(border=True, key="desk", horizontal=True, vertical_alignment="center", gap="small"):
    prompt.box()
    run.buttons("Race all lanes on this prompt.", on_click=form.race)
    with st.popover("Examples", key="examples", width="content"):
        prompt.examples()
    with st.popover("Settings", icon=":material/tune:", key="more", width="content"):
        more_settings.draw(models, lane=False)
with st.container(key="notice"):
    warming.show()
    prompt.remarks()
    if said := controls.penalty_note():
        st.caption(f":material/repeat: {plain(said)}.")

shared = controls.plain_lane()
with st.container(key="lanes"):
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Lanes", anchor=False, width="content")
        editor.presets_menu()
    editor.cards(shared, missing)
    form.draw(missing)
    if state.look_for:
        st.caption(f":material/visibility: {plain(state.look_for)}")

run.follow(lambda: editor.request(shared, missing))
if run.shown is None and run.kept is None:
    presenter.nothing_to_show()
run.report("Its lanes are set here: press Run to repeat it.")
if run.shown is None:
    if run.kept is not None:
        run.play()
    elif "run" not in st.query_params and not presenter.presenting():
        st.caption(
            "Press Run and watch the lanes side by side. After the run, charts and a table appear in tabs."
        )
else:
    if run.result and not editor.asks_for(run.result.request, shared, missing):
        st.info(
            "The results below are from the previous run, with other lanes or settings. Press Run for those above.",
            icon=":material/history:",
        )
    result.show(run)
editor.write()
