"""The lab: a recorded race to begin with; type a prompt, race plain decoding against a proposer, walk through it."""

from __future__ import annotations

import streamlit as st

from app import services
from app.choosing import (
    controls,
    current,
    form,
    lane_form,
    model_picker,
    more_settings,
    prompt,
    warming,
)
from app.course import landing
from app.decoding.models import ModelChoice
from app.player import CURSOR
from app.running import flow, header_links, headline, results
from app.text import plain
from app.ui import address, presenter
from app.ui.state import state
from specdec_core.rules import RULES

presenter.dress()
form.open_lab()
run = flow.Flow("lab", forgets=("round", "node"))

# The race comes first: nobody waits for the settings to be drawn.
begins = run.untouched and form.is_usual() and not presenter.presenting()
begins = begins and not set(CURSOR) & st.query_params.keys()
head, words = st.columns([5, 2.3], vertical_alignment="center")
with head, st.container(key="title", horizontal=True, vertical_alignment="center"):
    st.title("Specdec Lab", anchor=False, width="content")
    st.markdown("A small model **guesses** ahead, a large one **checks**.", width="content")
if complaints := state.complaints:
    st.warning("  \n".join(plain(complaint) for complaint in complaints), icon=":material/link_off:")

desk = st.container(border=True, key="desk", horizontal=True, vertical_alignment="center", gap="small")
notice, stage = st.container(key="notice"), st.container(key="stage")
notice.html("<i></i>")  # an empty container would have no place until it is filled
if begins:
    with stage:
        landing.draw()

models = model_picker.loaded()
with desk:
    prompt.box()
    run.buttons("Race plain decoding against the proposer on this prompt.")
    with st.popover("Examples", key="examples", width="content"):
        prompt.examples()
    with st.popover("Settings", icon=":material/tune:", key="more", width="content"):
        more_settings.draw(models)
run.follow(controls.request)
with notice:
    warming.show()
    prompt.remarks()
    if state.proposer != "none" and not RULES[state.rule].lossless:
        st.badge(plain(lane_form.rule_title(state.rule)), icon=":material/warning:", color="orange")
    if not run.asked and (why_not := controls.refusal()):
        st.caption(f":material/block: {plain(why_not)}")
    if said := controls.penalty_note():
        st.caption(f":material/repeat: {plain(said)}.")
    run.report("Its settings are set here: press Run to repeat it.")
    if run.shown is None and (status := services.shelf().status(ModelChoice())).state == "failed":
        st.error(plain(status.text), icon=":material/error:")
    if run.result and (said := controls.earlier(run.result.request)):
        st.caption(f":material/history: {plain(said)}")

with stage:
    example = None
    if not begins and run.shown is None and run.kept is None:
        example = results.example(
            landing.EXAMPLE if form.is_usual() else None, state.proposer, current.name()
        )
    if example is not None:
        if state.example_shown not in (None, example.id):
            address.drop(CURSOR)
        state.example_shown = example.id
        with st.container(key="look-for"):
            st.markdown(f":material/visibility: A recording. {plain(example.look_for)} Press Run for yours.")
    run.play(example)
with words:  # last: a run that has just been started is to be seen before the glossary is drawn again
    header_links.draw("lab")
if run.result and not presenter.presenting():
    headline.show(run.result)
    results.charts(run.result)
    results.download_box(run.result)
    results.onward(run.result)
form.write_lab()
