"""The model picker: which models a run uses, in the page's address like every other choice.

Without a choice the server's default family (`AUTO`) is used: the operator's, for which Run waits while it is loading,
or the bundled one where the former cannot be had. `default()` names the one in effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import streamlit as st

from app import services
from app.decoding.api import Family
from app.decoding.models import ModelChoice, Status, family, permitted
from app.lanes import page_settings
from app.text import plain
from app.ui.fragment import fragment
from app.ui.state import State, state
from specdec_core.foundations.errors import ModelError
from specdec_core.proposers import PROPOSERS

from . import inside

OTHER = "other"
BUNDLED = "bundled"
AUTO = "default"


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the model picker needs from an entry of the core's catalogue."""

    title: str
    target: str
    draft: str | None
    note: str


@cache  # Streamlit's cache would copy it a hundred times per page
def catalogue() -> Mapping[str, Catalogued]:
    """The catalogue's entries that are not bundled, by name."""
    from specdec_core.models import catalogue as core

    found = {
        entry.name: Catalogued(
            title=f"{entry.title} · {entry.download_bytes / 1e9:.1f} GB",
            target=entry.target,
            draft=entry.draft,
            note=entry.note,
        )
        for entry in core.entries()
        if not entry.bundled
    }
    return MappingProxyType(found)


@cache
def bundled_words() -> str:
    """What to expect of the bundled pair."""
    from specdec_core.models import catalogue as core

    pair = core.entries()[0]
    return (
        f"The bundled models are tiny: {pair.parameters:g} million and {pair.draft_parameters:g} million parameters, "
        "trained on children's stories, simple Python, short exercises and verse. They know no facts, so what they "
        "say about the world is made up."
    )


def usual() -> str:
    """The name of the operator's default family: the bundled one's, or an entry's."""
    return services.operator().family


def usual_title() -> str:
    """That family's title."""
    return "Bundled pair" if usual() == BUNDLED else catalogue()[usual()].title.partition(" · ")[0]


def default() -> str:
    """The name of the family used without a choice: the operator's, or the bundled one's where that cannot be had."""
    name = usual()
    return name if services.shelf().status(family(name)).state != "failed" else BUNDLED


def preparing() -> Status:
    """Loading state of the models that the next run uses; of the operator's default where it cannot be had."""
    name = usual() if state.model == AUTO else picked()
    return services.shelf().status(choice() if name == OTHER else family(name))


def preparing_words() -> str:
    """The same in words; empty if there is nothing to say."""
    status = preparing()
    if status.state == "failed" and state.model == AUTO:
        return f"{usual_title()} is not available, so the bundled models run. {status.text}"
    if status.state != "loading":
        return ""
    share = "" if status.fraction is None else f" ({status.fraction:.0%})"
    return f"The models are loading{share}. You can press Run: it begins as soon as they are there."


def model_options() -> tuple[str, ...]:
    """The models that visitors of this server may choose."""
    allowed = services.operator().models
    names = [AUTO, BUNDLED, usual()] if usual() != BUNDLED else [BUNDLED]
    if allowed in ("catalogue", "any"):
        names += catalogue()
    return (*dict.fromkeys(names), *((OTHER,) if allowed == "any" else ()))


def titles() -> dict[str, str]:
    """The titles of the models that this server offers; the first is the default."""
    own = {
        AUTO: f"Default: {usual_title()}",
        BUNDLED: "Bundled pair: two tiny models",
        OTHER: "Another model…",
    }
    if usual() != BUNDLED:
        own[usual()] = usual_title()
    return {name: own.get(name) or catalogue()[name].title for name in model_options()}


def sizes() -> list[str]:
    """What the picker's help adds: how large the loaded models are, and what happens until they are."""
    found = []
    if (models := loaded()) is not None:
        target, draft = models.card.target, models.card.draft
        sizes = [("the draft model", draft.parameters)] if draft else []
        sizes += [
            (PROPOSERS[name].title, size) for name, size in models.card.heads.items() if name in PROPOSERS
        ]
        others = "".join(f", {name} {_millions(size)}" for name, size in sizes)
        found = [
            f"The target has {_millions(target.parameters)} parameters{others}; a lane uses its proposer's."
        ]
    return found


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f} million"


def picked() -> str:
    """The name of the chosen models: an entry's, `BUNDLED` or `OTHER`; `AUTO` is resolved."""
    named = state.model if state.model in model_options() else model_options()[0]
    return default() if named == AUTO else named


def note(name: str) -> str:
    """The catalogue's description of a family in one sentence; empty if it is not in the catalogue."""
    entry = catalogue().get(name)
    return entry.note if entry else ""


def draw() -> None:
    """Target and draft, device and number format of the picked models."""
    entries, options = catalogue(), model_options()
    if state.model == BUNDLED and len(options) == 1:
        st.caption("This server runs its bundled models only.")
    elif picked() in entries:
        st.caption(plain(entries[picked()].note))
    elif state.model == OTHER:
        root = services.operator().models_root is not None
        words = "A model of the Hugging Face hub, as owner/name" + (
            ", or a folder below the models folder." if root else "."
        )
        st.text_input(
            "Target",
            key=State.target.key,
            persist_state="session",
            placeholder="openai-community/gpt2",
            help=words,
        )
        st.text_input(
            "Draft",
            key=State.draft.key,
            persist_state="session",
            placeholder="distilbert/distilgpt2",
            help="A smaller model, best with the same tokenizer: one with another tokenizer drafts by text or by "
            "shared tokens. Leave it empty to use none. " + words,
        )
        inside.draw(_parts())
    device, dtype = st.columns(2)
    device.selectbox(
        "Device",
        list(page_settings.DEVICE.titles()),
        key=State.device.key,
        persist_state="session",
        help="Where the models run; auto takes the fastest device.",
    )
    dtype.selectbox(
        "Number format",
        list(page_settings.DTYPE.titles()),
        key=State.dtype.key,
        persist_state="session",
        help="How the weights are stored. float32 is slow on a GPU; 16-bit formats can change near ties. 8-bit rounds "
        "every weight, on a CPU: faster, and another target, whose name says so.",
    )
    _memory()


def _memory() -> None:
    """What the chosen models need of the memory, until they are loaded; looked up while the page is read."""
    try:
        wanted = allowed(choice())
    except ModelError:  # said next to Run
        return
    shelf = services.shelf()
    if not wanted.target or shelf.ready(wanted) is not None or shelf.status(wanted).state == "loading":
        return
    waiting = services.needs().of(wanted) is None

    @fragment(run_every=0.5 if waiting else None)
    def told() -> None:
        found = services.needs().of(wanted)
        if found is None:
            st.caption(":material/hourglass_top: Looking up how much memory these models need.")
        elif waiting:
            st.rerun()
        elif found.fits is False:
            st.warning(plain(found.words), icon=":material/memory:")
        else:
            st.caption(f":material/memory: {plain(found.words)}")

    told()


def choice() -> ModelChoice:
    """The models the controls name, whether or not this server allows them."""
    name = picked()
    if name == OTHER:
        return ModelChoice(state.target.strip(), state.draft.strip() or None, state.device, state.dtype)
    return replace(family(name), device=state.device, dtype=state.dtype)


def loaded() -> Family | None:
    """The chosen models, if they are loaded."""
    try:
        return services.shelf().ready(allowed(choice()))
    except ModelError:
        return None


def allowed(wanted: ModelChoice) -> ModelChoice:
    """The choice as this server runs it.

    Raises:
        ModelError: if this server refuses it.
    """
    return permitted(wanted, services.operator(), _parts())


def _parts() -> set[str]:
    """The names that every server knows: the catalogue's, and those of its entries' models."""
    parts = {name for entry in catalogue().values() for name in (entry.target, entry.draft) if name}
    return parts | catalogue().keys()
