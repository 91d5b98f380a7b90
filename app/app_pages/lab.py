"""The lab: type a prompt, race plain decoding against a proposer, then walk through what happened."""

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
from app.decoding.models import ModelChoice
from app.player import CURSOR
from app.running import flow, header_links, headline, results
from app.text import plain
from app.ui import address, presenter
from app.ui.state import state
from specdec_core.rules import RULES

presenter.dress("lab")
form.open_lab()
run = flow.Flow("lab", forgets=("round", "node"))

head, words = st.columns([5, 2.3], vertical_alignment="center")
with head, st.container(key="title", horizontal=True, vertical_alignment="center"):
    st.title("Specdec Lab", anchor=False, width="content")
    st.markdown(
        "A small model **guesses** the next tokens, the large one **checks** them all in one pass.",
        width="content",
    )
if complaints := state.complaints:
    st.warning("  \n".join(plain(complaint) for complaint in complaints), icon=":material/link_off:")

models = model_picker.loaded()
with st.container(border=True, key="desk"):
    writing, choosing = st.columns(2, gap="medium")
    with writing, st.container(gap="xsmall"):
        prompt.prompt_box()
        about_prompt = st.container()
    with choosing, st.container(gap="xsmall"):
        with st.container(gap="xsmall"):
            controls.essentials(models.card.missing if models else {})
        with st.container(horizontal=True, vertical_alignment="center"):
            run.buttons("Race plain decoding against the proposer on this prompt.")
            with st.popover("More settings", icon=":material/tune:", key="more"):
                more_settings.draw(models)
        notice = st.container()

run.follow(controls.request)
with notice:
    warming.show()
    if state.proposer != "none" and not RULES[state.rule].lossless:
        st.badge(plain(lane_form.rule_title(state.rule)), icon=":material/warning:", color="orange")
    if not run.asked and (why_not := controls.refusal()):
        st.caption(f":material/block: {plain(why_not)}")

if said := controls.penalty_note():
    with about_prompt:
        st.caption(f":material/repeat: {plain(said)}; see More settings.")

run.report("Its settings are set here: press Run to repeat it.")
if run.shown is None and (status := services.shelf().status(ModelChoice())).state == "failed":
    st.error(plain(status.text), icon=":material/error:")
if run.result and (said := controls.earlier(run.result.request)):
    st.caption(f":material/history: {plain(said)}")

example = None
if run.shown is None and run.kept is None:
    example = results.example(*current.shown_before())
if example is not None:
    if state.example_shown not in (None, example.id):
        address.drop(CURSOR)
    state.example_shown = example.id
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="look-for"):
        st.markdown(f":material/visibility: {plain(example.look_for)}", width="content")
        if "run" in st.query_params or not controls.asks_for(
            example.prompt, example.lane, example.family, example.chat
        ):
            said = controls.recorded(example.prompt, example.lane)
            st.caption(f":material/history: {plain(said)}", width="content")

with st.container(key="stage"):
    run.play(example)
with words:  # last: a run that has just been started is to be seen before the glossary is drawn again
    header_links.draw("lab")
if run.result and not presenter.presenting():
    headline.show(run.result)
    results.charts(run.result)
    results.download_box(run.result)
    results.onward(run.result)
form.write_lab()
