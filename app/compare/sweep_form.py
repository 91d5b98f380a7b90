"""The form of a sweep: which prompts, how often, and the button that starts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import streamlit as st

from app.choosing import presets
from app.decoding.jobs import Busy
from app.decoding.models import ModelChoice
from app.lanes import page_settings
from app.lanes.fields import NumberField
from app.records import visitor
from app.text import count, plain
from app.ui import address
from app.ui.state import State, state
from app.ui.widgets import number_box
from specdec_core.foundations.errors import SpecdecError
from specdec_core.settings import Settings
from specdec_measure.sweep import cases as sources
from specdec_measure.sweep.cases import Case

from .sweep import Order
from .sweeps import MAX_CELLS, sweeps

ADDRESS = "sweep"


def form(
    lanes: list[Settings], labels: list[str], choice: ModelChoice, template: tuple[bool, str], busy: bool
) -> None:
    """What to sweep, and the start button; `template`: chat and its system line; `busy` while a sweep is running."""
    families = {family.name: family for family in presets.offered("chat" if template[0] else "text")}
    with st.container(border=True, key="sweep_form"):
        named, most, repeats, file = _boxes({name: family.title for name, family in families.items()})
        kinds = [
            families[name] for name in named if name in families
        ]  # a link may name kinds for other models
        cases, refusal = _cases(kinds, most, file, template)
        refusal = (
            refusal or page_settings.SWEEP_MOST.refusal(most) or page_settings.SWEEP_REPEATS.refusal(repeats)
        )
        order = Order(tuple(cases), tuple(lanes), tuple(labels), repeats, choice)
        if refusal is None and order.cells > MAX_CELLS:
            refusal = f"That is {order.cells:,} cells; at most {MAX_CELLS:,} are measured. Reduce something."
        refused = None
        if state.sweep_start and refusal is None and cases and not busy:
            try:
                address.put(ADDRESS, sweeps().start(order, visitor.of_session()).id)
                busy = True
            except (SpecdecError, Busy) as error:
                refused = str(error)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Start the sweep",
                icon=":material/grid_on:",
                type="primary",
                key=State.sweep_start.key,
                disabled=busy or refusal is not None or not cases,
                help="Other runs get their turn between cells.",
            )
            st.caption(_size(order) if cases else "Choose at least one kind of text, or bring a file.")
        if said := refusal or refused:
            st.error(plain(said), icon=":material/error:")


def _boxes(titles: dict[str, str]) -> tuple[list[str], int, int, BytesIO | None]:
    """The kinds of text, how many prompts of each, how many repeats, and a file of one's own."""
    if set(state.sweep_families) - titles.keys():  # for models of the other kind
        state.sweep_families = list(titles)
    named = st.pills(
        "Kinds of text",
        list(titles),
        selection_mode="multi",
        format_func=titles.__getitem__,
        key=State.sweep_families.key,
        persist_state="session",
        wrap=True,
        help="The example prompts that ship with the lab.",
    )
    left, middle, right = st.columns(3, gap="medium", vertical_alignment="top")
    with left:
        most = number_box(
            "Prompts of each kind",
            **_box(page_settings.SWEEP_MOST),
            help="The first ones of each kind; more prompts make the medians steadier.",
        )
    with middle:
        repeats = number_box(
            "Repeats",
            **_box(page_settings.SWEEP_REPEATS),
            help="How many times each prompt is timed in each lane; each time is a cell. Lanes take turns, and "
            "each turn starts with a different lane.",
        )
    with right:
        file = st.file_uploader(
            "Your own prompts (JSONL)",
            type=["jsonl", "ndjson", "json"],
            key="sweep_file",
            max_upload_size=2,
            help=f"One JSON object a line, such as `{sources.EXAMPLE}`. At most {sources.MAX_CASES} prompts.",
        )
    return named, most, repeats, file


def _cases(
    kinds: Sequence[presets.PromptFamily], most: int, file: BytesIO | None, template: tuple[bool, str]
) -> tuple[list[Case], str | None]:
    """The prompts, and why those of the file cannot be taken, if so."""
    cases = [
        Case(kind.name, preset.name, preset.text, *template)
        for kind in kinds
        for preset in kind.presets[:most]
    ]
    if file is not None:
        try:
            own = [replace(case, chat=True) for case in sources.from_jsonl(file.getvalue())]
            cases += sources.fitted(own, *template)
            _no_double(cases)
        except SpecdecError as error:
            return cases, str(error)
    return cases, None


def _size(order: Order) -> str:
    """How much is measured."""
    first = order.lanes[0]
    return (
        f"{count(len(order.cases), 'prompt')} × {count(len(order.lanes), 'lane')} × {count(order.repeats, 'repeat')} = "
        f"{count(order.cells, 'cell')}, up to {count(first.max_new_tokens, 'token')} each"
        f"{penalty(first.repetition_penalty)}"
    )


def penalty(given: float | None) -> str:
    """The repetition penalty of all lanes, at the end of a caption; empty where there is none."""
    return "" if given in (None, 1) else f", with a repetition penalty of {given:g}"


def _box(number: NumberField) -> dict[str, Any]:
    """What a number's box is drawn with."""
    return {
        "refusal": number.refusal,
        "step": 1,
        "key": number.key,
        "persist_state": "session",
    }


def _no_double(cases: Sequence[Case]) -> None:
    """Reject own prompts with a shipped prompt's name.

    Raises:
        SpecdecError: one sentence.
    """
    seen = set()
    for case in cases:
        if (case.family, case.name) in seen:
            raise SpecdecError(
                f"Your file has a prompt '{case.name}' in the family '{case.family}', and so has the lab. "
                "Give it another name."
            )
        seen.add((case.family, case.name))
