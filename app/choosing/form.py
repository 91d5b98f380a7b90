"""What the widgets of the lab and the comparison hold: filled as a page opens, read and written to its address later.

The widgets of the lab's lane have plain keys; those of a lane's form in the comparison have the same keys prefixed with
the form's name. Option widgets keep their values while another owner of options is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from app import services
from app.lanes import lane as lanes
from app.lanes import page_settings
from app.lanes.fields import Field, NameField, Params
from app.lanes.lane import KEYS, TABLES, Lane
from app.records import visitor
from app.ui import address, quirks
from app.ui.state import State, state
from specdec_core.foundations.options import OptionField, fields

from . import current, defaults, model_picker, presets

TABLE: tuple[Field, ...] = (
    NameField("model", titles=model_picker.titles),
    *page_settings.SHARED,
)


# --- A page opens; what it writes at the end of its run ---


def open_lab() -> None:
    """On the lab's first run take everything from its address; on the others follow the models."""
    before = state.settled
    params = open_page("lab", further=(*KEYS, *TABLES))
    if params is None:
        return
    named = any(key in KEYS or key.partition(".")[0] in TABLES for key in params)
    first = current.begins(current.proposers()[0])
    lane, complaints = lanes.read(params, current.linked(), current.options) if named else (first, [])
    if not named and state.lane is not None and before == state.settled and not quirks.came_by_history():
        lane = state.lane  # as it was before another page
    put(lane)
    state.complaints = [*complaints, *state.complaints]


def open_page(page: str, table: Iterable[Field] = (), further: Collection[str] = ()) -> Params | None:
    """On a page's first run take settings and prompt from its address; returns the address then.

    On the other runs follow the models: where they changed and the visitor chose nothing else, what is usual for them.

    Args:
        table: the page's settings besides those that all have.
        further: keys of its address that are read elsewhere, or their prefixes before the dot.
    """
    if state.opened == page:
        _follow_models()
        return None
    params = address.params()
    if "run" not in params:
        state.noted.pop(page, None)  # returning from another page shows the last run again
    table = [*TABLE, *table]
    found, complaints = page_settings.read(params, table, further)
    address.fill(table, found, anew=state.last_prompt is None)
    _note_models()
    state.complaints = complaints + _open_prompt(params)
    state.opened = page
    return params


def _open_prompt(params: Params) -> list[str]:
    """Take the prompt from the address; returns what is wrong with it there.

    Without a prompt in the address the last one stays, even from another page. What stands in the box of a browser
    that comes back to a new session counts before all.
    """
    given, named, run = (params.get(key, [""])[-1] for key in ("prompt", "preset", "run"))
    asked, last = presets.find(named), state.last_prompt
    if not given and asked is None and (shown := services.run_of(run or None, visitor.of_session())):
        given = shown.request.prompt  # a prompt too long for the address survives a reload
    families = presets.offered(current.audience())
    first = families[0].presets[0].text if families else "Once upon a time"
    typed = quirks.brought_along(State.prompt.key) if last is None else None
    if typed is not None:
        state.prompt = typed
    elif given:
        state.prompt = given[: page_settings.MAX_PROMPT]
    else:
        state.prompt = asked.text if asked else first if last is None else last
    state.opened_with = (
        None if typed or given or asked or last not in (None, state.opened_with) else state.prompt
    )
    missing = asked is None and "preset" in params
    return ["The link names an example prompt that does not exist here."] if missing else []


def is_usual() -> bool:
    """Whether the lab's lane and models are those that a visitor starts with."""
    first = current.proposers()[0]
    lane, why_not = read(before=state.lane)
    return why_not is None and lane == current.begins(first) and current.name() == model_picker.default()


def write_lab() -> None:
    """At the end of the lab's run: let its address say what is chosen."""
    lane, _ = read(before=state.lane)
    state.lane = lane
    usual = current.options(lane.proposer)
    said = {
        key: texts
        for key, texts in lanes.write(lane, usual).items()
        if len(texts[0]) <= page_settings.MAX_PROMPT_IN_LINK
    }
    # Whose options these are, or that what the page begins with is not meant.
    first = current.begins(lane.proposer)
    others = any(key.startswith("o.") for key in said) or Lane(lane.proposer, options=usual) != first
    if others or {lane.proposer} != {current.linked(), current.proposers()[0]}:
        said["proposer"] = [lane.proposer]
    write_page(more=said, further=(*KEYS, *TABLES))


def write_page(
    table: Iterable[Field] = (),
    more: Mapping[str, Sequence[str]] | None = None,
    further: Collection[str] = (),
) -> None:
    """At the end of a page's run: let its address say what is chosen; as `ui.address.write`."""
    families = presets.offered(current.audience())
    shown = presets.matching(state.prompt)  # for any models: the address names it
    default = families[0].presets[0].id if families else None
    prompt = page_settings.address_of_prompt(state.prompt, shown.id if shown else None, default)
    address.write([*TABLE, *table], {**prompt, **(more or {})}, ("prompt", "preset", *further))


# --- The models change ---


def _note_models() -> str | None:
    """Note which models the settings are for; returns those before, if they were others."""
    before, state.settled = state.settled, current.name()
    if before in (None, state.settled):
        return None
    return before


def _follow_models() -> None:
    """Apply the usual settings of models that were chosen, or became ready, where the visitor chose nothing else."""
    before = _note_models()
    if before is None:
        return
    first, now = defaults.proposers(before)[0], current.proposers()[0]
    lane, why_not = read()
    linked = Lane(first, options=defaults.options(before, first))
    if why_not is None and lane in (linked, defaults.begins(before, first), Lane(first)):
        begins = current.begins(now)
        state.proposer, state.gamma, state.length = now, begins.gamma, begins.length
    if state.prompt == state.opened_with:  # chosen by the page, not the visitor
        take_fitting_example()


def models_chosen() -> None:
    """The visitor picked models: replace an untouched example prompt by one that suits them."""
    _follow_models()
    take_fitting_example()


def take_fitting_example() -> None:
    """Replace an example for models of the other kind by the first one for those chosen."""
    shown, families = presets.matching(state.prompt), presets.offered(current.audience())
    if shown and families and all(shown not in family.presets for family in families):
        state.prompt = families[0].presets[0].text


def follow_proposer(name: str, form: str = "") -> None:
    """Another proposer was picked: how far it guesses begins anew too, unless the visitor has set it."""
    place, lengths = key("begun", form), [key(setting, form) for setting in ("gamma", "length")]
    before, st.session_state[place] = st.session_state.get(place), name
    if before in (None, name):
        return
    old, new = current.begins(before), current.begins(name)
    if [st.session_state.get(one) for one in lengths] == [old.gamma, old.length]:
        for place, value in zip(lengths, (new.gamma, new.length), strict=True):
            st.session_state[place] = value


# --- A lane's widgets ---


def key(setting: str, form: str = "") -> str:
    """The key of the widget for a lane's setting."""
    return f"{form}.{setting}" if form else setting


def option_key(prefix: str, owner: str, option: str, form: str = "") -> str:
    """The key of the widget for an option."""
    return key(f"{prefix}.{owner}.{option}", form)


def is_drawn(form: str) -> bool:
    """Whether the widgets of that form hold a lane."""
    return key(KEYS[0], form) in st.session_state


def put(lane: Lane, form: str = "") -> None:
    """Set a form's widgets to the lane."""
    for setting in KEYS:
        st.session_state[key(setting, form)] = getattr(lane, setting)
    st.session_state[key("begun", form)] = lane.proposer
    for prefix in TABLES:
        owner, values = lane.owner(prefix)
        for field in fields(owner.Options).values():
            place = option_key(prefix, owner.name, field.name, form)
            st.session_state[place] = shown(field, values.get(field.name, field.default))


def held(prefix: str, owner: Any, field: OptionField, form: str, usual: Mapping[str, Any]) -> Any:
    """What the widget of an owner's option holds; before it is drawn, what it is to begin with."""
    place = option_key(prefix, owner.name, field.name, form)
    return st.session_state.get(place, shown(field, usual.get(field.name, field.default)))


def begins(prefix: str, owner: Any) -> Mapping[str, Any]:
    """The values that an owner's options start with, instead of their defaults."""
    return current.begins(owner.name).options if prefix == "o" else {}


def read(form: str = "", before: Lane | None = None) -> tuple[Lane, str | None]:
    """The lane that a form's widgets hold, and the first reason why it cannot be used as it is, as a sentence.

    An option that cannot be read has its value of `before`, the previous lane.
    """
    otherwise = before or Lane()
    chosen = {name: st.session_state.get(key(name, form), getattr(otherwise, name)) for name in KEYS}
    for name, owners in ((table.setting, table.owners) for table in TABLES.values()):
        if chosen[name] not in owners:  # Streamlit sends the title that the option had before
            chosen[name] = state.last_picked.get(key(name, form), getattr(otherwise, name))
    lane = replace(otherwise, **chosen)
    why_not = page_settings.MEMORY.refusal(lane.memory)
    if why_not:
        lane = replace(lane, memory=otherwise.memory)
    found: dict[str, Any] = {}
    for prefix, table in TABLES.items():
        owner, usual = lane.owner(prefix)
        if before is None or owner is not before.owner(prefix)[0]:
            usual = begins(prefix, owner)
        values = found[table.options] = {}
        for field in fields(owner.Options).values():
            value = held(prefix, owner, field, form, usual)
            if problem := refusal(field, owner, value):
                why_not, value = why_not or problem, usual.get(field.name, field.default)
            elif field.kind == "list" and value:
                value = field.read(value)
            if value not in (None, "", field.default):
                values[field.name] = value
    return replace(lane, **found), why_not


def refusal(field: OptionField, owner: Any, held: Any) -> str | None:
    """Why an owner's option cannot have what its widget holds; None if it can."""
    if held in (None, "") or field.kind not in ("list", "whole", "number"):
        return None
    text = held if field.kind == "list" else field.write(held)
    try:
        field.read(text)
    except ValueError:
        got = f"“{text[:40]}”" if field.kind == "list" else text
        return f"{field.title} ({owner.title}) has to be {field.wanted}, not {got}."
    return None


def shown(field: OptionField, value: Any) -> Any:
    """A value in the form its widget uses."""
    if value is None:
        return "" if field.kind in ("list", "text") else None
    return json.dumps(value) if field.kind == "list" else float(value) if field.kind == "number" else value
