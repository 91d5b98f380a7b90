"""The lab's controls: the three most important choices, and the request that all controls add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.decoding.models import ModelChoice
from app.decoding.run import Request
from app.lanes import page_settings
from app.ui.glossary import define
from app.ui.state import State, state
from app.ui.widgets import number, pick
from specdec_core.engine.choice import remark as remark_on
from specdec_core.foundations.errors import ModelError, PromptError, SettingsError, SpecdecError
from specdec_core.models.generation import OFF
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import current, form, lane_form, model_picker

USUAL = Settings()
PROMPT_WORDS = 60  # characters of a prompt that serve as its name


def models() -> None:
    """The control for the models, with what they are good for as its help."""
    good_for = current.words().good_for or model_picker.note(current.name())
    pick(
        "Models",
        model_picker.titles(),
        State.model.key,
        f"{good_for}\n\nThe target model that writes, and what guesses for it. "
        + " ".join([*model_picker.sizes(), define("Target model")]),
        on_change=form.models_chosen,
    )


def essentials(missing: Mapping[str, str | None]) -> None:
    """The most important choices. `missing` has a reason for each proposer that these models cannot run."""
    with st.grid(2, min_column_width=240, gap="small"):
        models()
        with st.container():
            kind = lane_form.proposer(missing)
    left, right = st.columns(2, gap="small")
    with left:
        lane_form.draft_length(kind)
    with right:
        temperature()


def temperature() -> None:
    """The control for the temperature."""
    number(
        "slider",
        "Temperature",
        page_settings.TEMPERATURE,
        0.05,
        define("Greedy")
        + "\n\nAbove 0 the next token is drawn at random: the higher, the more varied and the harder to guess.",
    )


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

    They do not depend on the prompt.
    """
    chosen = {name: getattr(state, name) for name in OFF}
    penalty = chosen.pop("repetition_penalty")
    if not state.generation:
        return {**chosen, "repetition_penalty": OFF["repetition_penalty"] if penalty is None else penalty}
    left = {name: None if value == OFF[name] else value for name, value in chosen.items()}
    return {**left, "repetition_penalty": penalty}


def unusable_number() -> str | None:
    """Why a number for all lanes that was typed cannot be used, as one sentence; None if all can."""
    boxes = (State.tokens, State.top_k, State.repetition_penalty, State.no_repeat_ngram_size, State.seed)
    return next(filter(None, (box.refusal() for box in boxes)), None)


def penalty_note() -> str | None:
    """The repetition penalty that the next run has, and where it comes from; None where there is none."""
    chosen = state.repetition_penalty
    given = current.penalty() if chosen is None else chosen
    if given in (None, 1):
        return None
    source = "as the model's authors set it" if chosen is None else "as set"
    return f"With a repetition penalty of {given:g}, {source} under Settings"


def chosen_lane() -> Settings:
    """The lane that races the baseline, checked as far as possible without models.

    Raises:
        SettingsError: one sentence about the first invalid setting.
    """
    lane, why_not = form.read()
    if why_not:
        raise SettingsError(why_not)
    return lane.settings(plain_lane())


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
    if shown.branch:
        return (
            f"This run goes on from an earlier one, with “{shown.trail[-1][1]}” in place of that one's own token. "
            "Press Run to begin anew with the prompt and settings above."
        )
    try:
        if request() == shown:
            return None
    except SpecdecError:
        pass
    return f"This is your last run: {shown.labels[-1]}, on “{start(shown.prompt)}”. Press Run to use the new settings."


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


def subject() -> ModelChoice:
    """The models that a run of the prompt would use, after both checks.

    Raises:
        SpecdecError: one sentence about the first problem.
    """
    if not state.prompt.strip():
        raise PromptError("The prompt is empty. Type some text to continue, or pick an example.")
    if len(state.prompt) > page_settings.MAX_PROMPT:
        raise PromptError("Nothing was started: the note below the prompt says why.")
    if why_not := unusable_number():
        raise SettingsError(why_not)
    wanted = model_picker.choice()
    if wanted.target == "":
        raise ModelError("Name the target model first: a hub id such as openai-community/gpt2.")
    return model_picker.allowed(wanted)
