"""The form of the lane being edited: filled from the lane, and read back into it on each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.choosing import controls, lane_state, more, options
from app.lanes import lane as core
from app.lanes import links
from app.lanes.lane import LETTERS, Lane
from app.text import plain
from app.ui.chip import heading
from app.ui.glossary import define
from app.ui.state import state
from app.ui.widgets import number_box
from specdec_core.foundations.errors import SettingsError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES


def draw(missing: Mapping[str, str | None]) -> None:
    """The form of the lane being edited, if any."""
    name = state.editing
    if name is None or name not in state.lanes:
        return
    lane_state.fill(state.lanes[name], name)
    lane, number = state.lanes[name], list(state.lanes).index(name) + 1
    with st.container(border=True, key="lane-form"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.html(heading(number, f"Lane {LETTERS[number]}"))
            st.button("Done", icon=":material/check:", key="done", on_click=close)
        guesses, judges, lengths = st.columns(3, gap="medium")
        with guesses:
            kind = PROPOSERS[
                _pick(name, "proposer", "Proposer", _proposers(missing), "Proposer", "Draft model")
            ]
            st.caption(plain(missing.get(kind.name) or kind.summary))
            _options(name, "o", kind, lane)
        with judges:
            titles = {key: controls.rule_title(key) for key in RULES}
            rule = RULES[
                _pick(name, "rule", "Acceptance rule", titles, "Acceptance rule", "Lossless", "Lossy")
            ]
            st.caption(plain(rule.summary))
            _options(name, "r", rule, lane)
        with lengths:
            uses_length = core.uses_length(lane_state.read(name, lane))
            gamma = links.GAMMA
            st.slider(
                "Guesses per round, γ", int(gamma.low), int(gamma.high), key=lane_state.key("gamma", name),
                disabled=not uses_length, help=define("Draft length γ"), persist_state="page",
            )  # fmt: skip
            tree = core.guesses_tree(lane_state.read(name, lane))
            # The same for every proposer: a widget whose options' names change is another one, and has lost its value.
            titles = controls.length_titles(False) | {
                core.USUAL.length_policy: "Fixed γ, or the tree as proposed"
            }
            policy = LENGTH_POLICIES[_pick(name, "length", "How far to guess", titles, "Length policy")]
            st.caption(controls.length_words(policy.name, tree))
            _options(name, "l", policy, lane)
            st.toggle(
                "Guess while the target checks", key=lane_state.key("overlap", name),
                disabled=not kind.can_overlap, persist_state="page",
            )  # fmt: skip
            number_box(
                "Memory for a round, MB (0: no limit)", links.MEMORY.refusal, step=1.0,
                key=lane_state.key("memory", name), persist_state="page", help=more.MEMORY_WORDS,
            )  # fmt: skip
    state.lanes[name] = lane_state.read(name, lane)


def take() -> None:
    """Copy the open form's values into its lane before the cards are drawn."""
    name = state.editing
    if name is not None and name in state.lanes and lane_state.is_drawn(name):
        state.lanes[name] = lane_state.read(name, state.lanes[name])


def close() -> None:
    """Close the form; its values are the lane's."""
    take()
    state.editing = None


def race() -> None:
    """Run was pressed: close the form, and show the race."""
    close()
    state.tab = "Race"


def broken(name: str, lane: Lane) -> str | None:
    """The form's first invalid value, as a sentence; None if all are valid or no form is open."""
    if why_not := links.MEMORY.refusal(lane.memory):
        return why_not
    if not lane_state.is_drawn(name):
        return None
    for prefix in core.TABLES:
        owner, values = lane.owner(prefix)
        lane_state.fill_options(prefix, owner, values, name)
        try:
            lane_state.options(prefix, owner, name)
        except SettingsError as error:
            return str(error)
    return None


def _pick(name: str, what: str, words: str, titles: Mapping[str, str], *terms: str) -> str:
    return str(
        st.selectbox(
            words,
            list(titles),
            format_func=titles.__getitem__,
            key=lane_state.key(what, name),
            help=define(*terms),
            persist_state="page",
        )
    )


def _proposers(missing: Mapping[str, str | None]) -> dict[str, str]:
    return {
        name: f"{kind.title} (not with these models)" if missing.get(name) else kind.title
        for name, kind in controls.proposers().items()
        if name != "none"
    }


def _options(name: str, prefix: str, kind: Any, lane: Lane) -> None:
    owner, values = lane.owner(prefix)
    lane_state.fill_options(prefix, kind, values if owner is kind else lane_state.begins(prefix, kind), name)
    options.draw(prefix, kind, name)
