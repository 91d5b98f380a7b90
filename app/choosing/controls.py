"""The lab's controls: the three most important choices, and the request that all controls add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.decoding import models
from app.decoding.models import Choice
from app.decoding.run import Request
from app.lanes import links
from app.text import plain
from app.ui.glossary import define
from app.ui.state import State, state
from app.ui.widgets import number, pick
from specdec_core.engine.check import remark as remark_on
from specdec_core.foundations.errors import ModelError, PromptError, SettingsError, SpecdecError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.models.generation import OFF
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import current, lane_state, model_picker, settling

USUAL = Settings()
TERMS = ("Proposer", "Draft model", "Target model")  # defined in the help on proposers
PROMPT_WORDS = 60  # characters of a prompt that serve as its name


def choices() -> dict[str, dict[str, str]]:
    """The settings that all lanes share and that come from a list, with their values' titles; the first is the
    default."""
    return {
        "model": model_picker.titles(),
        "device": {name: name for name in links.DEVICES},
        "dtype": {name: name for name in links.DTYPES},
    }


def proposers() -> dict[str, Any]:
    """The proposers in the core's order, but with the usual one first and plain decoding last."""
    first = next(iter(current.guessers()), USUAL.proposer)
    order = sorted(PROPOSERS, key=lambda name: (name != first, name == "none"))
    return {name: PROPOSERS[name] for name in order}


def rule_title(name: str) -> str:
    """A rule's title, with "lossy" first where it applies."""
    rule = RULES[name]
    return rule.title if rule.lossless else f"lossy: {rule.title}"


def length_titles(tree: bool) -> dict[str, str]:
    """The length policies' titles, for a proposer of trees or of chains."""
    titles = {name: policy.title for name, policy in LENGTH_POLICIES.items()}
    return titles | ({USUAL.length_policy: "The tree as proposed"} if tree else {})


def length_words(name: str, tree: bool) -> str:
    """What a length policy does, as Markdown."""
    if tree and name == USUAL.length_policy:
        return (
            "This proposer guesses a tree, whose size is one of its own settings. The other choices make it shallower "
            "or leave out guesses that are unlikely to pay, where the proposer allows it."
        )
    return plain(LENGTH_POLICIES[name].summary)


def essentials(missing: Mapping[str, str | None]) -> None:
    """The most important choices. `missing` has a reason for each proposer that these models cannot run."""
    titles = {
        name: f"{kind.title} (not with these models)" if missing.get(name) else kind.title
        for name, kind in proposers().items()
    }
    with st.grid(2, min_column_width=240, gap="small"):
        settling.picker()
        with st.container():
            name = pick(
                "Proposer",
                titles,
                State.proposer.key,
                lambda name: (
                    f"**{PROPOSERS[name].title}.** {PROPOSERS[name].summary}\n\n"
                    + define(*(term for term in TERMS if term != PROPOSERS[name].title))
                ),
                # whose options these are, or that they are left out
                named=any(key.startswith("o.") for key in st.query_params)
                or current.must_be_named(state.proposer),
            )
            if missing.get(name):
                st.caption(f":material/block: {plain(missing[name] or '')}")
    left, right = st.columns(2, gap="small")
    with left:
        kind = PROPOSERS[name]
        tree = "tree" in (drafts(kind) or "")
        uses_length = "length" in kind.uses and name != "none" and not tree
        # A slider that does nothing says why, without its help too.
        if tree:
            most = tree_size(kind)
            title = f"Guesses per round: a tree{f' of up to {most}' if most else ''}"
            words = "This proposer guesses a tree; its size is set under More settings."
        elif not uses_length:
            title = "Guesses per round: not set here"
            words = "This proposer has no number of guesses to set."
        else:
            title = "Guesses per round, γ"
            words = "More guesses save more target passes when they are right, and waste drafting when they are wrong."
        # Where γ sets nothing it is hidden: it would be taken for the tree's size.
        with st.container(key="guesses" if uses_length else "guesses-unset"):
            number(
                "slider",
                title,
                links.GAMMA,
                1,
                f"{define('Draft length γ', 'Round')}\n\n{words}",
                disabled=not uses_length,
            )
    with right:
        number(
            "slider",
            "Temperature",
            links.TEMPERATURE,
            0.05,
            define("Greedy")
            + "\n\nAbove 0 the next token is drawn at random: the higher, the more varied and the harder to guess.",
        )


def drafts(kind: Any) -> str | None:
    """What kind of proposals a proposer makes with the chosen options; None where the core refuses them.

    With an unusable one it is what the proposer begins with, so that the rest of the page stays as it is.
    """
    try:
        options = lane_state.options("o", kind)
    except SettingsError:
        options = dict(current.begins(kind.name))
    try:
        return str(kind.drafts(Settings(proposer=kind.name, temperature=state.temperature, options=options)))
    except SpecdecError:
        return None


def tree_size(kind: Any) -> int | None:
    """The most guesses of a proposer's tree with the chosen options; None where it has no such option."""
    try:
        options = kind.read_options(Settings(options=lane_state.options("o", kind)))
    except SpecdecError:
        return None
    return len(getattr(options, "choices", ())) or getattr(
        options, "nodes", None
    )  # a tree may be given node by node


def plain_lane() -> Settings:
    """Plain decoding with the chosen settings: the baseline of every run."""
    return Settings(
        proposer="none",
        draft_length=state.gamma,
        max_new_tokens=state.tokens,
        temperature=state.temperature,
        top_k=state.top_k,
        top_p=state.top_p,
        **decided(),
        seed=state.seed,
        stop=tuple(text.replace(r"\n", "\n").replace(r"\t", "\t") for text in state.stop),
    )


def decided() -> dict[str, Any]:
    """The settings that the models may decide: None leaves one to their generation config; otherwise it is off.

    Where usual settings apply, the usual repetition penalty for these models and this kind of prompt takes precedence.
    """
    chosen = {name: getattr(state, name) for name in OFF}
    penalty = chosen.pop("repetition_penalty")
    if not state.generation:
        return {**chosen, "repetition_penalty": OFF["repetition_penalty"] if penalty is None else penalty}
    left = {name: None if value == OFF[name] else value for name, value in chosen.items()}
    return {**left, "repetition_penalty": current.penalty() if penalty is None else penalty}


def unusable_number() -> str | None:
    """Why a number for all lanes that was typed cannot be used, as one sentence; None if all can."""
    boxes = (State.tokens, State.top_k, State.repetition_penalty, State.no_repeat_ngram_size, State.seed)
    return next(filter(None, (box.refusal() for box in boxes)), None)


def penalty_note() -> str | None:
    """What the usual repetition penalty in force is; None where the visitor set one, and where there is none."""
    if not state.generation or st.session_state.get(State.repetition_penalty.key) is not None:
        return None
    here, own = current.penalty(), current.penalty_of_own(model_picker.loaded())
    if here not in (None, 1):
        return f"With a repetition penalty of {here:g}"
    if here == 1 and own not in (None, 1):
        return f"No repetition penalty for this example; your own prompts get {own:g}"
    return None


def chosen_lane() -> Settings:
    """The lane that races the baseline, checked as far as possible without models.

    Raises:
        SettingsError: one sentence about the first invalid setting.
    """
    if why_not := State.memory.refusal():
        raise SettingsError(why_not)
    return lane_state.read().settings(plain_lane())


def refusal() -> str | None:
    """Why the choices are incompatible, as one sentence; None if no problem can be found before a run."""
    if why_not := unusable_number():
        return why_not
    if state.proposer == "none":
        return None
    try:
        chosen_lane()
    except SpecdecError as error:
        return str(error)
    return None


def remark() -> str | None:
    """A note on compatible choices; None if there is none."""
    try:
        return remark_on(chosen_lane())
    except SpecdecError:
        return None


def label(lane: Settings) -> str:
    """A lane's name."""
    kind = PROPOSERS[lane.proposer]
    words = [kind.title]
    if kind.drafts(lane) == "chain" and "length" in kind.uses:
        fixed = lane.length_policy == USUAL.length_policy
        words.append(f"γ = {lane.draft_length}" if fixed else f"γ up to {lane.draft_length}")
    if not RULES[lane.rule].lossless:
        words.append("lossy")
    if lane.overlap and kind.can_overlap:
        words.append("overlap")
    return ", ".join(words)


def earlier(shown: Request) -> str | None:
    """The line above a result whose settings differ from those chosen now; None if they match."""
    try:
        if request() == shown:
            return None
    except SpecdecError:
        pass
    return f"Result of the last run: {shown.labels[-1]}, on “{start(shown.prompt)}”; Run takes the settings above."


def recorded(prompt: str, lane: Settings) -> str:
    """The line above a recorded example that differs from what was asked for."""
    another = "" if state.prompt == prompt else ", with another prompt"
    return f"A recording, at temperature {lane.temperature:g}{another}"


def asks_for(prompt: str, lane: Settings, family: str, chat: bool) -> bool:
    """Whether Run would request this lane on this prompt of these models, whatever the length."""
    try:
        asked = subject(), plain_lane() if state.proposer == "none" else chosen_lane()
    except SpecdecError:
        return False
    alike = asked[1].but(
        draft_length=lane.draft_length, max_new_tokens=lane.max_new_tokens, record=lane.record
    )
    return (
        asked[0] == models.family(family)
        and current.wraps() == chat
        and not current.system_line()
        and state.prompt == prompt
        and _applied(alike) == _applied(lane)
        and label(asked[1]) == label(lane)  # γ is compared only where it applies
    )


def _applied(lane: Settings) -> Settings:
    """The lane with unset settings written out as off; a record has its settings as they were applied."""
    return lane.but(**{name: value for name, value in OFF.items() if getattr(lane, name) is None})


def start(prompt: str, most: int = PROMPT_WORDS) -> str:
    """The beginning of a prompt, on one line."""
    words = " ".join(prompt.split())
    return words if len(words) <= most else words[:most].rstrip() + "…"


def request() -> Request:
    """What Run requests.

    Raises:
        SpecdecError: one sentence about the first invalid setting.
    """
    allowed = subject()
    lanes, labels = [plain_lane()], [PROPOSERS["none"].title]
    if state.proposer != "none":
        lanes.append(chosen_lane())
        labels.append(label(lanes[1]))
    return Request(
        state.prompt,
        tuple(lanes),
        tuple(labels),
        allowed,
        chat=current.wraps(),
        system=current.system_line(),
    )


def subject() -> Choice:
    """The models that a run of the prompt would use, after both checks.

    Raises:
        SpecdecError: one sentence about the first problem.
    """
    if not state.prompt.strip():
        raise PromptError("The prompt is empty. Type some text to continue, or pick an example.")
    if len(state.prompt) > links.MAX_PROMPT:
        raise PromptError("Nothing was started: the note below the prompt says why.")
    if why_not := unusable_number():
        raise SettingsError(why_not)
    wanted = model_picker.choice()
    if wanted.target == "":
        raise ModelError("Name the target model first: a hub id such as openai-community/gpt2.")
    return model_picker.allowed(wanted)
