"""The models that the page runs: the control for them, in the page's address, and what is usual for them.

Who chose none runs the server's default family once it is there, and the tiny one until then. When the default becomes
ready while somebody is on the page, the next run uses it; what was typed and chosen stays.
"""

from __future__ import annotations

import streamlit as st

from . import model_picker, presets, usual
from .glossary import define
from .text import plain
from .usual import Usual

_SETTLED, _CHOSEN, _NEWS = "model_settled", "model_chosen", "model_news"


def name() -> str:
    """The chosen models, as the model picker calls them."""
    return str(st.session_state.get("model") or model_picker.default())


def words() -> Usual:
    """What is usual for the chosen models."""
    return usual.of(name())


def wraps() -> bool:
    """Whether the prompt is sent as a message in the models' chat template, as far as can be told before a run."""
    asked = st.session_state.get("chat", st.query_params.get("chat") != "false")
    models = model_picker.loaded()
    if models is not None:
        return bool(asked and models.chat_template)
    return bool(asked and (words().audience == "chat" or name() == model_picker.OTHER))


def system_line() -> str:
    """The system line that was asked for; empty for the template's own."""
    return str(st.session_state.get("system", st.query_params.get("system", ""))).strip()


def guessers() -> list[str]:
    """The proposers worth starting with, the best first."""
    return usual.guessers(name())


def settle() -> None:
    """Take up the default models where the visitor chose none, and what is usual for the models in force.

    Called before the page's widgets are drawn.
    """
    state, titles = st.session_state, model_picker.titles()
    asked = st.query_params.get("model", state.get("last_model"))
    if "model" not in state and asked in titles:
        state.model, state[_CHOSEN] = asked, True
    if not state.get(_CHOSEN) and state.get("model") != model_picker.default():
        state[_NEWS] = model_picker.default() if "model" in state else None
        state.model = model_picker.default()
    before, state[_SETTLED] = state.get(_SETTLED), name()
    if before is not None and before != name():
        first, now = usual.guessers(before), guessers()
        if state.get("proposer", first[0]) == first[0] and now:
            state.proposer = state.last_proposer = now[0]


def bar() -> None:
    """The control for the models, and one line about what they are good for."""
    state, titles = st.session_state, model_picker.titles()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="models-bar"):
        st.selectbox(
            "Models",
            list(titles),
            format_func=lambda key: titles.get(key, key),
            key="model",
            on_change=_chose,
            label_visibility="collapsed",
            width=250,
            help="The target that writes, and what guesses for it. " + define("Target model"),
        )
        if state.get("go"):
            state[_NEWS] = None
        good_for = words().good_for or model_picker.note(name())
        if state.get(_NEWS) == name():
            said = f":material/check_circle: **Ready now: your next run uses it.** {plain(good_for)}"
            st.caption(said, width="stretch")
        else:
            st.caption(plain(good_for), width="stretch")
    if state.get(_CHOSEN):
        state.last_model = name()
    if state.get(_CHOSEN) and name() != model_picker.default():
        st.query_params["model"] = name()
    else:
        st.query_params.pop("model", None)


def _chose() -> None:
    """The visitor picked models: an untouched example prompt gives way to one for such models."""
    state = st.session_state
    state[_CHOSEN], state[_NEWS] = True, None
    settle()
    shown = presets.matching(state.get("prompt", ""))
    families = presets.offered("chat" if wraps() else "text")
    if shown and families and all(shown not in family.presets for family in families):
        state.prompt = families[0].presets[0].text
