"""The prompt: the examples to start from, and the box."""

from __future__ import annotations

import streamlit as st

from app.lanes import page_settings
from app.text import count, plain
from app.ui.state import State, state
from specdec_core.foundations.errors import SpecdecError

from . import current, model_picker, presets

OWN = "own"


def examples() -> None:
    """The prompts to start from."""
    preset = presets.matching(state.prompt)
    if preset is None:
        state.own_prompt = state.prompt
    family_of = {item.id: family for family in presets.families() for item in family.presets}
    offered = presets.offered(current.audience())
    titles = {family.name: family.title for family in offered}
    if preset and family_of[preset.id].name not in titles:  # an example for models of the other kind
        preset = None
        state.own_prompt = state.prompt
    _mark_family(family_of[preset.id].name if preset else OWN)
    if state.own_prompt is not None:
        titles[OWN] = "Your own"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", key="start-from"):
        if offered:
            _example_picker(titles, family_of.get(preset.id) if preset else None, preset)
    st.caption(f"Look for: {plain(preset.look_for)}" if preset else current.words().prompt_help)


def box() -> None:
    """The box to type in, two lines high."""
    st.text_area(
        "Prompt",
        key=State.prompt.key,
        persist_state="session",
        height=68,
        label_visibility="collapsed",
        placeholder="Type a prompt",
    )
    state.last_prompt = state.prompt


def remarks() -> None:
    """What is wrong with the prompt, or to be known of the models that read it."""
    if len(state.prompt) > page_settings.MAX_PROMPT:
        st.warning(too_long(state.prompt), icon=":material/content_cut:")
    elif presets.matching(state.prompt) is None and current.name() == model_picker.BUNDLED:
        st.caption(f":material/info: {plain(model_picker.bundled_words())}")


def what_is_read() -> None:
    """The whole text that a chat model reads: the message in its template."""
    models = model_picker.loaded()
    if models is None or not models.card.chat_template or not current.wraps():
        return
    with st.expander("What the model reads", icon=":material/data_object:", key="templated"):
        if len(state.prompt) > page_settings.MAX_PROMPT:
            st.caption("The prompt is too long to be shown here.")
            return
        try:
            text, tokens = models.chat(state.prompt, current.system_line())
        except SpecdecError as error:
            st.caption(plain(str(error)))
            return
        st.caption(
            f"{count(tokens, 'token')}: your message in the model's own "
            "chat template. Each &lt;|…|&gt; is one special token."
        )
        st.code(text, language=None, wrap_lines=True)


def _example_picker(
    titles: dict[str, str], family: presets.PromptFamily | None, preset: presets.PromptPreset | None
) -> None:
    st.pills(
        "Start from an example",
        list(titles),
        format_func=titles.__getitem__,
        key=_family_key(),
        required=True,
        wrap=True,
        on_change=_take_family,
        help="Some kinds of text are easier to guess than others: code and copies are easy, poems are hard.",
    )
    if family and preset and len(family.presets) > 1:
        options = {item.id: item.name for item in family.presets}
        st.menu_button(
            "More",
            list(options),
            format_func=options.__getitem__,
            key=State.example.key,
            on_click=_take_example,
            type="tertiary",
            help=f"Other prompts of this kind. Shown is “{plain(preset.name)}”.",
        )


def _family_key() -> str:
    return f"{State.family.key}-{state.family_marks}" if state.family_marks else State.family.key


def _mark_family(name: str) -> None:
    """Mark what the prompt is an example of.

    A browser that does not know of the new mark yet sends the old one with whatever its visitor presses, and Streamlit
    would take that for a choice: the words just typed would be lost. So each new mark is a control of its own.
    """
    if st.session_state.get(_family_key()) not in (None, name):
        state.family_marks += 1
    st.session_state[_family_key()] = name


def _take_family() -> None:
    chosen = st.session_state.get(_family_key())
    if chosen is None:  # a late message about a mark that was removed
        return
    family = next((item for item in presets.families() if item.name == chosen), None)
    state.prompt = family.presets[0].text if family else state.own_prompt or ""


def _take_example() -> None:
    if preset := presets.find(state.example):
        state.prompt = preset.text


def too_long(prompt: str) -> str:
    """The sentence for a rejected prompt."""
    return (
        f"The prompt has {len(prompt):,} characters; at most {page_settings.MAX_PROMPT:,} are taken. "
        "Shorten it; it stays as it is until you do."
    )
