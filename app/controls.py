"""The lab's controls: widgets that live in the page's address, and the request they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from specdec_core.errors import ModelError, PromptError
from specdec_core.settings import Settings

from . import links, offers, presets, services
from .glossary import define
from .models import Choice, permitted
from .runs import Request
from .text import plain

OWN = "own"
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


def start_from_address() -> None:
    """On the first run of a session: take the prompt from the address and remember what it says wrongly."""
    if "prompt" in st.session_state:
        return
    st.session_state.complaints = links.problems(st.query_params.to_dict(), choices())
    families = presets.families()
    first = families[0].presets[0].text if families else "Once upon a time"
    asked = presets.find(st.query_params.get("preset"))
    if asked is None and "preset" in st.query_params:
        st.session_state.complaints.append("The link names an example prompt that does not exist here.")
    given = st.query_params.get("prompt")
    st.session_state.prompt = given[: links.MAX_PROMPT] if given else (asked.text if asked else first)


def prompt_box() -> None:
    """The prompt, and the examples to start from."""
    state = st.session_state
    preset = presets.matching(state.prompt)
    if preset is None:
        state.own_prompt = state.prompt
    family_of = {item.id: family for family in presets.families() for item in family.presets}
    state.family = family_of[preset.id].name if preset else OWN
    titles = {family.name: family.title for family in presets.families()}
    if "own_prompt" in state:
        titles[OWN] = "Your own"
    if presets.families():
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            _example_picker(titles, family_of.get(preset.id) if preset else None, preset)
    st.text_area("Prompt", key="prompt", height=112, help="The text the models continue. They add to it, they do not chat.")
    if len(state.prompt) > links.MAX_PROMPT:
        st.warning(_too_long(state.prompt), icon=":material/content_cut:")
    elif preset:
        st.caption(f":material/visibility: {plain(preset.look_for)}")
    _keep_prompt_in_address(preset.id if preset else None)


def _example_picker(titles: dict[str, str], family: presets.Family | None, preset: presets.Preset | None) -> None:
    st.pills(
        "Start from an example",
        list(titles),
        format_func=titles.__getitem__,
        key="family",
        required=True,
        wrap=True,
        on_change=_take_family,
        help="Kinds of text differ in how well they can be guessed: code and copies are easy, poems are hard.",
    )
    if family and preset and len(family.presets) > 1:
        options = {item.id: item.name for item in family.presets}
        st.menu_button(
            "More",
            list(options),
            format_func=options.__getitem__,
            key="example",
            on_click=_take_example,
            type="tertiary",
            help=f"Other prompts of this kind. Shown is “{plain(preset.name)}”.",
        )


def _take_family() -> None:
    name = st.session_state.family
    family = next((item for item in presets.families() if item.name == name), None)
    st.session_state.prompt = family.presets[0].text if family else st.session_state.get("own_prompt", "")


def _take_example() -> None:
    if preset := presets.find(st.session_state.example):
        st.session_state.prompt = preset.text


def _keep_prompt_in_address(preset: str | None) -> None:
    families = presets.families()
    default = families[0].presets[0].id if families else None
    wanted = links.address_of_prompt(st.session_state.prompt, preset, default)
    for key in ("prompt", "preset"):
        if key in wanted and st.query_params.get(key) != wanted[key]:
            st.query_params[key] = wanted[key]
        elif key not in wanted and key in st.query_params:
            del st.query_params[key]


def essentials(missing: dict[str, str | None]) -> None:
    """The three choices that matter most. `missing` has a reason for each proposer these models cannot do."""

    titles = {
        name: f"{title} (not with these models)" if missing.get(name) else title for name, title in offers.PROPOSERS.items()
    }
    name = _pick("Who guesses", titles, "proposer", define("Proposer", "Draft model", "Target model"))
    if missing.get(name):
        st.caption(f":material/block: {plain(missing[name] or '')}")
    elif told := offers.summary("proposers", name):
        st.caption(plain(told))
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


def more_settings(chat_template: bool) -> None:
    """Everything else, in three columns."""
    model, text, draws = st.columns(3, gap="medium")
    with model:
        _model_picker()
    with text:
        words = define("Acceptance rule", "Lossless", "Accepted", "Rejected")
        rule = _pick("Acceptance rule", offers.RULES, "rule", words)
        if told := offers.summary("rules", rule):
            st.caption(plain(told))
        _number("number", "New tokens", links.TOKENS, 1, "How many tokens each lane writes at most.")
        st.multiselect(
            "Stop at",
            STOPS,
            key="stop",
            bind="query-params",
            accept_new_options=True,
            max_selections=8,
            placeholder="Nothing",
            help=r"Decoding ends after any of these texts; type your own. `\n` stands for a line break, `\n\n` for an empty line.",
        )
        if chat_template:
            st.toggle(
                "Use the chat template",
                key="chat",
                bind="query-params",
                help="This model was trained on conversations; the template wraps the prompt as a user's message.",
            )
    with draws:
        _number("number", "Top-k", links.TOP_K, 1, "Draw among the k likeliest tokens only; 0 means all. Works above temperature 0.")
        _number(
            "slider",
            "Top-p",
            links.TOP_P,
            0.05,
            "Draw among the likeliest tokens that together have this probability; 1 means all. Works above temperature 0.",
        )
        _number(
            "number", "Seed", links.SEED, 1, "Where the random numbers begin. The same seed gives the same run again. " + define("Coin")
        )


def _pick(label: str, titles: dict[str, str], key: str, words: str) -> str:
    """A selectbox kept in the address by its options' names; Streamlit's own binding would put the titles there."""
    default = next(iter(titles))
    if key not in st.session_state:
        asked = st.query_params.get(key, default)
        st.session_state[key] = asked if asked in titles else default
    picked = st.selectbox(label, list(titles), format_func=lambda name: titles.get(name, name), key=key, help=words)
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
        words = "A model of the Hugging Face hub, as owner/name" + (", or a folder below the models folder." if root else ".")
        st.text_input("Target", key="target", bind="query-params", placeholder="openai-community/gpt2", help=words)
        st.text_input(
            "Draft",
            key="draft",
            bind="query-params",
            placeholder="distilbert/distilgpt2",
            help="A smaller model with the same tokenizer. Leave it empty to do without one. " + words,
        )
    device, dtype = st.columns(2)
    device.selectbox(
        "Device", links.DEVICES, key="device", bind="query-params", help="Where the models run; auto takes the fastest there is."
    )
    dtype.selectbox(
        "Number format",
        links.DTYPES,
        key="dtype",
        bind="query-params",
        help="How the weights are stored. float32 is exact but slow on a GPU; 16-bit formats can turn near ties around.",
    )


def choice() -> Choice:
    """The models the controls name; it may be one this server refuses."""
    state = st.session_state
    picked = state.get("model", BUNDLED)
    device, dtype = state.get("device", "auto"), state.get("dtype", "auto")
    if picked == OTHER:
        return Choice((state.get("target") or "").strip(), (state.get("draft") or "").strip() or None, device, dtype)
    entry = catalogue().get(picked) if picked != BUNDLED else None
    return Choice(entry.target if entry else None, entry.draft if entry else None, device, dtype)


def request() -> Request:
    """What Run asks for.

    Raises:
        SpecdecError: one sentence about the first thing that does not fit.
    """
    state = st.session_state
    if not state.prompt.strip():
        raise PromptError("The prompt is empty. Type some text to continue, or pick an example.")
    if len(state.prompt) > links.MAX_PROMPT:
        raise PromptError(_too_long(state.prompt))
    wanted = choice()
    if wanted.target == "":
        raise ModelError("Name the target model first: a hub id such as openai-community/gpt2.")
    listed = {name for entry in catalogue().values() for name in (entry.target, entry.draft) if name}
    allowed = permitted(wanted, services.operator(), listed)
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


def _too_long(prompt: str) -> str:
    return (
        f"The prompt has {len(prompt):,} characters; at most {links.MAX_PROMPT:,} are taken. "
        "Shorten it; nothing of it is lost until you do."
    )
