"""Default settings of a family of models: what it is good for, how it samples, which proposers to try.

Nothing here imports streamlit or torch. A page uses these values wherever its visitor chose none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.lanes.lane import USUAL, Lane
from specdec_core.models import catalogue
from specdec_measure.sweep.cases import Audience

TINY, REAL = "bundled", "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class Start:
    """A proposer worth trying with a family.

    Attributes:
        proposer: its name.
        part: the folder below assets/models of the trained part that it needs, if any.
        options: what links mean that name this proposer without them, where the family needs others than the
            proposer's defaults; fixed, as links that were given away cannot be changed.
    """

    proposer: str
    part: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Default settings of a family.

    Attributes:
        short: its short name.
        good_for: one short line.
        audience: whether it continues texts or answers messages; its prompts match.
        starts: proposers, the best first.
        prompt_help: what happens to the typed prompt.
        linked: the proposer of a link that names none but has settings of one, where that is not the first; fixed, as
            links that were given away cannot be changed.
    """

    short: str
    good_for: str
    audience: Audience = "text"
    starts: tuple[Start, ...] = (Start("draft-model"), Start("prompt-lookup"))
    prompt_help: str = "The text the models continue. They do not chat."
    linked: str = ""


_CHAT_HELP = (
    "A message to the model, which answers it. With the chat template switched off, under the settings, the models "
    "continue the text instead."
)
_CHAT = Defaults(
    short="Chat models",
    good_for="answers messages",
    audience="chat",
    prompt_help=_CHAT_HELP,
)
_KNOWN = {
    TINY: Defaults(
        short="Tiny",
        good_for="Instant, but it writes toy text and knows no facts. For the course and slow machines.",
    ),
    REAL: Defaults(
        short="SmolLM2 135M",
        good_for="Answers questions, writes simple code; facts may be wrong.",
        audience="chat",
        starts=(
            Start("draft-model", "smollm2-draft"),
            Start("combined", "smollm2-draft"),
            Start("eagle", "smollm2-eagle", {"depth": 3, "top_k": 3, "nodes": 8}),
            Start("eagle3", "smollm2-eagle3", {"depth": 3, "top_k": 3, "nodes": 8}),
            Start("medusa", "smollm2-medusa"),
            Start("prompt-lookup"),
            Start("lookahead"),
        ),
        prompt_help=_CHAT_HELP,
        linked="eagle",
    ),
}
_CHAT_MODELS = ("qwen3-1.7b", "qwen2.5-1.5b", "smollm2-1.7b", "smollm2-360m")
_OTHER = Defaults(
    short="Other models",
    good_for="",
    prompt_help="The text the models continue, or, for a model with a chat template, the message it answers.",
)


def of(model: str) -> Defaults:
    """The usual settings of the models with that name in the model picker."""
    return _KNOWN.get(model) or (_CHAT if model in _CHAT_MODELS else _OTHER)


def proposers(
    model: str,
    there: Callable[[str], bool] = lambda part: (catalogue.bundled_folder() / part).is_dir(),
) -> list[str]:
    """The proposers that such models can run, best first. `there` says whether a trained part ships."""
    return [each.proposer for each in of(model).starts if each.part is None or there(each.part)]


def options(model: str, proposer: str) -> Mapping[str, Any]:
    """The options that a link means which names a proposer for such models; those left out have its defaults."""
    return _start(model, proposer).options


def begins(model: str, proposer: str) -> Lane:
    """The lane a visitor starts with, written into the page's address: what pays on a CPU, where that is known."""
    entry = catalogue.find(model)
    measured = entry.cpu_settings.get(proposer, {}) if entry else {}
    return Lane(
        proposer,
        measured.get("draft_length", USUAL.draft_length),
        length=measured.get("length_policy", USUAL.length_policy),
        length_options=measured.get("length_options", {}),
        options={**_start(model, proposer).options, **measured.get("options", {})},
    )


def _start(model: str, proposer: str) -> Start:
    return next((each for each in of(model).starts if each.proposer == proposer), Start(proposer))
