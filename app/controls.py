"""The lab's controls: widgets that live in the page's address, and the request they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from specdec_core.errors import ModelError, PromptError
from specdec_core.settings import Settings

from . import links, offers, services
from .glossary import TERMS, define
from .models import Choice, permitted
from .prompt import too_long
from .runs import Request
from .text import plain

OTHER = "other"
BUNDLED = "bundled"
STOPS = (r"\n\n", r"\n")


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


def model_options() -> tuple[str, ...]:
    """The models this server lets its visitors choose."""
    allowed = services.operator().models
    return (
        BUNDLED,
        *(catalogue() if allowed in ("catalogue", "any") else ()),
        *((OTHER,) if allowed == "any" else ()),
    )


def choices() -> dict[str, tuple[str, ...]]:
    """The settings whose values come from a list, and the lists; the first is the default."""
    return {
        "proposer": tuple(offers.PROPOSERS),
        "rule": tuple(offers.RULES),
        "model": model_options(),
        "device": links.DEVICES,
        "dtype": links.DTYPES,
    }


def essentials(missing: dict[str, str | None]) -> None:
    """The three choices that matter most. `missing` has a reason for each proposer these models cannot do."""

    titles = {
        name: f"{title} (not with these models)" if missing.get(name) else title
        for name, title in offers.PROPOSERS.items()
    }
    name = _pick(
        "Who guesses (proposer)", titles, "proposer", define("Proposer", "Draft model", "Target model")
    )
    if missing.get(name):
        st.caption(f":material/block: {plain(missing[name] or '')}")
    else:  # until the core can tell, the word's definition keeps the place
        st.caption(plain(offers.summary("proposers", name) or TERMS["Proposer"]))
    left, right = st.columns(2, gap="medium")
    with left:
        _number(
            "slider",
            "Guesses per round, γ",
            links.GAMMA,
            1,
            define("Draft length γ", "Round")
            + "\n\nMore guesses save more target passes while they are right, and waste drafting when they are wrong.",
        )
    with right:
        _number(
            "slider",
            "Temperature",
            links.TEMPERATURE,
            0.05,
            define("Greedy")
            + "\n\nAbove 0 the next token is drawn at random: the higher, the bolder, and the harder to guess.",
        )


def more_settings(models: Any | None) -> None:
    """Everything else, in three columns. `models` are the chosen models once they are loaded."""
    model, text, draws = st.columns(3, gap="medium")
    with model:
        _model_picker()
    with text:
        words = define("Acceptance rule", "Lossless", "Accepted", "Rejected")
        rule = _pick("Acceptance rule", offers.RULES, "rule", words)
        st.caption(plain(offers.summary("rules", rule) or TERMS["Acceptance rule"]))
        _number("number", "New tokens", links.TOKENS, 1, "How many tokens each lane writes at most.")
        st.multiselect(
            "Stop at",
            STOPS,
            key="stop",
            bind="query-params",
            accept_new_options=True,
            max_selections=8,
            placeholder="Nothing",
            help=r"Decoding ends after any of these texts; type your own. `\n` is a line break, `\n\n` an empty line.",
        )
        # Before its models are loaded a link may already ask for the template; the run tells if there is none.
        if models.chat_template if models else choice().target is not None:
            st.toggle(
                "Use the chat template",
                key="chat",
                bind="query-params",
                help="This model was trained on conversations; the template wraps the prompt as a user's message.",
            )
    with draws:
        _number(
            "number",
            "Top-k",
            links.TOP_K,
            1,
            "Draw among the k likeliest tokens only; 0 means all. Works above temperature 0.",
        )
        _number(
            "slider",
            "Top-p",
            links.TOP_P,
            0.05,
            "Draw among the likeliest tokens that make up this probability; 1 means all. Works above temperature 0.",
        )
        _number(
            "number",
            "Seed",
            links.SEED,
            1,
            "Where the random numbers begin. The same seed gives the same run again. " + define("Coin"),
        )


def _pick(label: str, titles: dict[str, str], key: str, words: str) -> str:
    """A selectbox kept in the address by its options' names; Streamlit's own binding would put the titles there."""
    default = next(iter(titles))
    if key not in st.session_state:
        asked = st.query_params.get(key, default)
        st.session_state[key] = asked if asked in titles else default
    picked = st.selectbox(
        label, list(titles), format_func=lambda name: titles.get(name, name), key=key, help=words
    )
    if picked == default:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != picked:
        st.query_params[key] = picked
    return picked


def _number(kind: str, label: str, number: links.Number, step: float, words: str) -> None:
    cast = int if number.whole else float
    draw = st.slider if kind == "slider" else st.number_input
    draw(
        label,
        min_value=cast(number.low),
        max_value=cast(number.high),
        value=cast(number.default),
        step=cast(step),
        key=number.key,
        bind="query-params",
        help=words,
    )


def _model_picker() -> None:
    entries, options = catalogue(), model_options()
    own = {BUNDLED: "Bundled pair", OTHER: "Another model…"}
    titles = {name: own.get(name) or entries[name].title for name in options}
    picked = _pick("Models", titles, "model", "A target and its draft. " + define("Target model"))
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
    picked = state.get("model", BUNDLED)
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
        return services.shelf().ready(_permitted(choice()))
    except ModelError:
        return None


def _permitted(wanted: Choice) -> Choice:
    listed = {name for entry in catalogue().values() for name in (entry.target, entry.draft) if name}
    return permitted(wanted, services.operator(), listed)


def request() -> Request:
    """What Run asks for.

    Raises:
        SpecdecError: one sentence about the first thing that does not fit.
    """
    state = st.session_state
    if not state.prompt.strip():
        raise PromptError("The prompt is empty. Type some text to continue, or pick an example.")
    if len(state.prompt) > links.MAX_PROMPT:
        raise PromptError(too_long(state.prompt))
    wanted = choice()
    if wanted.target == "":
        raise ModelError("Name the target model first: a hub id such as openai-community/gpt2.")
    allowed = _permitted(wanted)
    common = Settings(
        proposer="none",
        draft_length=state.gamma,
        max_new_tokens=state.tokens,
        temperature=state.temperature,
        top_k=state.top_k,
        top_p=state.top_p,
        seed=state.seed,
        stop=tuple(text.replace(r"\n", "\n").replace(r"\t", "\t") for text in state.stop),
    )
    lanes = [common]
    labels = ["Plain decoding"]
    if state.proposer != "none":
        lanes.append(common.but(proposer=state.proposer, rule=state.rule))
        labels.append(f"{offers.PROPOSERS[state.proposer]}, γ = {state.gamma}")
    return Request(state.prompt, tuple(lanes), tuple(labels), allowed, chat=bool(state.get("chat")))
