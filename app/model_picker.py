"""The model picker: which models a run uses, in the page's address like every other choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from specdec_core.errors import ModelError

from . import links, services
from .models import Choice, permitted
from .text import plain

OTHER = "other"
BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the model picker needs to know about an entry of the core's catalogue."""

    title: str
    target: str
    draft: str | None
    note: str


@st.cache_data(show_spinner=False)
def catalogue() -> dict[str, Catalogued]:
    """The catalogue's entries that are not bundled, by name."""
    from specdec_core import catalogue as core

    return {
        entry.name: Catalogued(
            title=f"{entry.title} · {entry.download_bytes / 1e9:.1f} GB",
            target=entry.target,
            draft=entry.draft,
            note=entry.note,
        )
        for entry in core.entries()
        if not entry.bundled
    }


@st.cache_data(show_spinner=False)
def bundled_words() -> str:
    """What may be expected of the bundled pair."""
    from specdec_core import catalogue as core

    pair = core.entries()[0]
    return (
        f"The bundled models are tiny: {pair.parameters:g} million and {pair.draft_parameters:g} million parameters, "
        "trained on children's stories, simple Python, short exercises and verse. They know no facts, so what they "
        "write about the world is made up."
    )


def model_options() -> tuple[str, ...]:
    """The models this server lets its visitors choose."""
    allowed = services.operator().models
    return (
        BUNDLED,
        *(catalogue() if allowed in ("catalogue", "any") else ()),
        *((OTHER,) if allowed == "any" else ()),
    )


def titles() -> dict[str, str]:
    """What the models this server offers are called."""
    own = {BUNDLED: "Bundled pair", OTHER: "Another model…"}
    return {name: own.get(name) or catalogue()[name].title for name in model_options()}


def default() -> str:
    """The family that runs where nobody chose one."""
    return BUNDLED


def wanted() -> str:
    """The family that the server is to run by default, be it ready or not."""
    return BUNDLED


def note(name: str) -> str:
    """What the catalogue says of a family in one sentence; empty for what is not in it."""
    entry = catalogue().get(name)
    return entry.note if entry else ""


def draw() -> None:
    """Target and draft, device and number format, of the models that were picked."""
    entries, options = catalogue(), model_options()
    picked = st.session_state.get("model", default())
    if picked == BUNDLED and len(options) == 1:
        st.caption("This server runs its bundled models only.")
    elif picked in entries:
        st.caption(plain(entries[picked].note))
    elif picked == OTHER:
        root = services.operator().models_root is not None
        words = "A model of the Hugging Face hub, as owner/name" + (
            ", or a folder below the models folder." if root else "."
        )
        st.text_input(
            "Target", key="target", bind="query-params", placeholder="openai-community/gpt2", help=words
        )
        st.text_input(
            "Draft",
            key="draft",
            bind="query-params",
            placeholder="distilbert/distilgpt2",
            help="A smaller model with the same tokenizer. Leave it empty to do without one. " + words,
        )
    device, dtype = st.columns(2)
    device.selectbox(
        "Device",
        links.DEVICES,
        key="device",
        bind="query-params",
        help="Where the models run; auto takes the fastest there is.",
    )
    dtype.selectbox(
        "Number format",
        links.DTYPES,
        key="dtype",
        bind="query-params",
        help="How the weights are stored. float32 is slow on a GPU; 16-bit formats can turn near ties around.",
    )


def choice() -> Choice:
    """The models the controls name; it may be one this server refuses."""
    state = st.session_state
    picked = state.get("model", default())
    device, dtype = state.get("device", "auto"), state.get("dtype", "auto")
    if picked == OTHER:
        return Choice(
            (state.get("target") or "").strip(), (state.get("draft") or "").strip() or None, device, dtype
        )
    entry = catalogue().get(picked) if picked != BUNDLED else None
    return Choice(entry.target if entry else None, entry.draft if entry else None, device, dtype)


def loaded() -> Any | None:
    """The chosen models, if they are loaded."""
    try:
        return services.shelf().ready(allowed(choice()))
    except ModelError:
        return None


def allowed(wanted: Choice) -> Choice:
    """The choice as this server runs it.

    Raises:
        ModelError: if it does not.
    """
    listed = {name for entry in catalogue().values() for name in (entry.target, entry.draft) if name}
    return permitted(wanted, services.operator(), listed)
