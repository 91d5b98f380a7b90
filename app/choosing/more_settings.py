"""The settings: proposer options, acceptance rule, draft length; then models, text and sampling."""

from __future__ import annotations

import streamlit as st

from app.decoding.api import Family
from app.lanes import page_settings
from app.text import plain
from app.ui import quirks
from app.ui.glossary import define
from app.ui.state import State, state
from app.ui.widgets import number, switch
from specdec_core.proposers import PROPOSERS
from specdec_core.settings import Settings

from . import controls, current, lane_form, model_picker, prompt

STOPS = (r"\n\n", r"\n")
WIDE = """
:--popover:has(.st-key-more-settings) { width: min(72rem, calc(100vw - 2rem)) !important; max-width: none !important; }
"""


def draw(models: Family | None, lane: bool = True) -> None:
    """All settings, the important ones first. `models` are the chosen models once they are loaded; `lane`: those of the
    lab's lane among them."""
    st.html(quirks.style(WIDE))
    with st.container(key="more-settings"):
        if lane:
            controls.essentials(models.card.missing if models else {})
            st.divider()
            guesses, judges, lengths = st.columns(3, gap="medium")
            kind = PROPOSERS[state.proposer]
            with guesses:
                st.markdown(f"**{plain(kind.title)}**")
                lane_form.guessing(kind)
            with judges:
                lane_form.judging(kind)
            with lengths:
                lane_form.lengths(kind)
                if said := controls.remark():
                    st.caption(f":material/info: {plain(said)}")
        else:
            left, right = st.columns(2, gap="medium")
            with left:
                controls.models()
            with right:
                controls.temperature()
        st.divider()
        model, text, sampling = st.columns(3, gap="medium")
        with model:
            model_picker.draw()
        with text:
            number(
                "number",
                "New tokens",
                page_settings.TOKENS,
                1,
                "The maximum number of tokens each lane writes.",
            )
            text_settings(models)
        with sampling:
            sampling_settings(models)


def text_settings(models: Family | None) -> None:
    """Where the text stops, and the chat template. `models` are the chosen models once they are loaded."""
    st.multiselect(
        "Stop at",
        STOPS,
        key=State.stop.key,
        persist_state="session",
        accept_new_options=True,
        max_selections=8,
        placeholder="Nothing",
        help=r"Decoding ends after any of these texts; type your own. `\n` is a line break, `\n\n` an empty line.",
    )
    # A link may request the template before its models are loaded; without a template the prompt is sent unchanged.
    if models.card.chat_template if models else model_picker.choice().target is not None:
        wrap = switch(
            "Use the chat template",
            "This model was trained on conversations; the template wraps the prompt as a user's message. Without it "
            "the model continues the text.",
            key=State.chat.key,
            persist_state="session",
        )
        st.text_input(
            "System prompt",
            key=State.system.key,
            persist_state="session",
            max_chars=page_settings.MAX_SYSTEM,
            placeholder="the template's default",
            disabled=not wrap,
            help="Instructions to the model, before your message. If empty, the template's default is used.",
        )
    prompt.what_is_read()


def sampling_settings(models: Family | None) -> None:
    """Sampling settings. `models` are the chosen models once they are loaded."""
    number(
        "number",
        "Top-k (0: all)",
        page_settings.TOP_K,
        1,
        "Draw only among the k most likely tokens; 0 means all. Works above temperature 0.",
    )
    number(
        "slider",
        "Top-p (1: all)",
        page_settings.TOP_P,
        0.05,
        "Draw only among the most likely tokens that make up this probability; 1 means all. Works above temperature 0.",
    )
    number(
        "slider",
        "Min-p (0: all)",
        page_settings.MIN_P,
        0.01,
        "Draw only among tokens at least this likely, as a share of the most likely one; 0 means all. "
        "Works above temperature 0.",
    )
    number(
        "number",
        "Repetition penalty (1: none)",
        page_settings.PENALTY,
        0.05,
        "Above 1, tokens that are in the prompt or in the text so far become less likely. Works at every temperature, "
        "and the text is then no longer the target's own but what it writes under this penalty; plain decoding has the "
        "same one. It makes text harder to guess, for some ways of guessing far more than for others. Left empty: what "
        "the model's authors set, or none.",
        unset="none" if (usual := current.penalty()) in (None, 1) else f"{usual:g}, the model's own",
    )
    number(
        "number",
        "No repeated sequences of this many tokens (0: off)",
        page_settings.NGRAM,
        1,
        "No sequence of this many tokens is written twice, including the prompt's; 0 turns this off.",
    )
    _generation(models)
    number(
        "number",
        "Seed",
        page_settings.SEED,
        1,
        "Fixes the random numbers. The same seed gives the same run again. " + define("Coin"),
    )


def _generation(models: Family | None) -> None:
    """Whether to follow the model's generation config, and its values for the loaded models."""
    switch(
        "Use the model's default settings",
        "A model's authors can set a "
        "repetition penalty, min-p or no repeated sequences in its generation_config.json. With this on, these "
        "defaults apply where the settings above are off or empty; with this off, only the settings above are used.",
        key=State.generation.key,
        persist_state="session",
    )
    if models is not None:
        for said in models.card.generation.remarks(Settings(**controls.decided())):
            st.caption(f":material/info: {plain(said)}")
