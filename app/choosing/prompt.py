"""The prompt: the examples to start from, the box, and its place in the page's address."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app import services
from app.lanes import lane, links
from app.records import visitor
from app.text import count, plain
from app.ui import quirks
from app.ui.state import State, state
from specdec_core.foundations.errors import SpecdecError

from . import current, lane_state, model_picker, presets

OWN = "own"
LINE = 72  # about as many characters fit in a line
LINES = 2, 9  # the fewest and the most that the box shows


def start_from_address(choices: Mapping[str, Mapping[str, str]], proposer: str) -> None:
    """On the lab's first run in a session: take lane and prompt from the address and record its errors.

    Args:
        choices: the options of the shared settings that come from a list, with their titles.
        proposer: the usual one.
    """
    if has_begun("lab"):
        return
    params = st.query_params.to_dict()
    if "run" not in params:
        state.noted.pop("lab", None)  # returning from another page shows the last run again
    found, complaints = lane.read(params, proposer, current.options)
    named = any(key in lane.KEYS or key.partition(".")[0] in lane.TABLES for key in params)
    state.linked = params.get("proposer", current.LINKED_ANY) if named else ""
    lane_state.put(found, params)
    wrong = links.problems(params, choices, links.SHARED, further=(*lane.KEYS, *lane.TABLES))
    begin("lab", [*complaints, *wrong])


def has_begun(page: str) -> bool:
    """Whether the session's state already belongs to this page."""
    return state.state_of == page and State.prompt.held


def begin(page: str, complaints: list[str]) -> None:
    """Take the prompt from the address; `complaints` are the errors in the rest of it.

    Without a prompt in the address the last one stays, even from another page. What stands in the box of a browser
    that comes back to a new session counts before all.
    """
    params = st.query_params
    state.state_of = page
    unusable = links.unusable(params.to_dict())
    if wrong := links.stop_problems(params.get_all("stop")):
        unusable.append("stop")
    state.complaints = complaints + wrong
    families = offered()
    first = families[0].presets[0].text if families else "Once upon a time"
    asked = presets.find(params.get("preset"))
    if asked is None and "preset" in params:
        state.complaints.append("The link names an example prompt that does not exist here.")
    given = params.get("prompt")
    if not given and asked is None and (run := services.run_of(params.get("run"), visitor.of_session())):
        given = run.request.prompt  # a prompt too long for the address survives a reload
    last = state.last_prompt
    typed = quirks.brought_along(State.prompt.key) if last is None else None
    if typed is not None:
        state.prompt = typed
    elif given:
        state.prompt = given[: links.MAX_PROMPT]
    else:
        state.prompt = asked.text if asked else first if last is None else last
    state.opened_with = None if typed or given or asked or last is not None else first
    if unusable:  # some widgets fail on invalid values, so the page restarts without them
        for key in unusable:
            del st.query_params[key]
        st.rerun()  # noqa: TID251 - before all widgets


def prompt_box() -> None:
    """The prompt, and the examples to start from."""
    preset = presets.matching(state.prompt)
    if preset is None:
        state.own_prompt = state.prompt
    family_of = {item.id: family for family in presets.families() for item in family.presets}
    titles = {family.name: family.title for family in offered()}
    if preset and family_of[preset.id].name not in titles:  # an example for models of the other kind
        preset = None
        state.own_prompt = state.prompt
    _mark_family(family_of[preset.id].name if preset else OWN)
    if state.own_prompt is not None:
        titles[OWN] = "Your own"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", key="start-from"):
        if offered():
            _example_picker(titles, family_of.get(preset.id) if preset else None, preset)
    look_for = f"\n\n**Look for:** {plain(preset.look_for)}" if preset else ""
    with st.container(gap=None):
        reading = st.container(key="reading")
        st.text_area(
            "Prompt",
            key=State.prompt.key,
            height=_height(state.prompt),
            help=current.words().prompt_help + look_for,
        )
    state.last_prompt = state.prompt
    if len(state.prompt) > links.MAX_PROMPT:
        st.warning(too_long(state.prompt), icon=":material/content_cut:")
    elif preset is None and current.name() == model_picker.BUNDLED:
        st.caption(f":material/info: {plain(model_picker.bundled_words())}")
    with reading:
        _what_is_read()
    shown = presets.matching(state.prompt)  # for any models: the address names it
    _keep_prompt_in_address(shown.id if shown else None)


def _height(text: str) -> int:
    """Pixels of the box: all lines of a short program, the beginning of a long text."""
    lines = sum(1 + len(line) // LINE for line in text.splitlines())
    edge = 28 if lines < LINES[0] else 36  # less is enough below a line that leaves room
    return 24 * min(max(lines, LINES[0]), LINES[1]) + edge


def offered() -> tuple[presets.Family, ...]:
    """The families of prompts for the chosen models."""
    return presets.offered("chat" if current.wraps() else "text")


def _what_is_read() -> None:
    """The whole text that a chat model reads: the message in its template."""
    models = model_picker.loaded()
    if models is None or not models.card.chat_template or not current.wraps():
        return
    with (
        st.popover("What the model reads", icon=":material/data_object:", type="tertiary"),
        st.container(key="templated"),
    ):
        if len(state.prompt) > links.MAX_PROMPT:
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
    titles: dict[str, str], family: presets.Family | None, preset: presets.Preset | None
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


def _keep_prompt_in_address(preset: str | None) -> None:
    families = offered()
    default = families[0].presets[0].id if families else None
    wanted = links.address_of_prompt(state.prompt, preset, default)
    for key in ("prompt", "preset"):
        if key in wanted and st.query_params.get(key) != wanted[key]:
            st.query_params[key] = wanted[key]
        elif key not in wanted and key in st.query_params:
            del st.query_params[key]


def too_long(prompt: str) -> str:
    """The sentence for a rejected prompt."""
    return (
        f"The prompt has {len(prompt):,} characters; at most {links.MAX_PROMPT:,} are taken. "
        "Shorten it; it stays as it is until you do."
    )
