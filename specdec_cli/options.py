"""The options of decode and race, declared once; names and options come from the core's tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from dataclasses import fields as attributes
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from specdec_core.engine.choice import check
from specdec_core.foundations.errors import SettingsError, meant
from specdec_core.foundations.options import fields
from specdec_core.foundations.options import parse as read
from specdec_core.lengths import LENGTH_POLICIES, policy_class
from specdec_core.models import catalogue
from specdec_core.models.catalogue import HEADS
from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import PROPOSERS, proposer_class
from specdec_core.rules import RULES, rule_class
from specdec_core.settings import SAMPLING, Settings

from .render import sentences

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.proposers import Proposer


def names_of(table: Mapping[str, Any]) -> str:
    """The names of a table, lossy rules labelled."""
    return ", ".join(
        name if getattr(kind, "lossless", True) else f"{name} (lossy)" for name, kind in table.items()
    )


def _option(group: str, *names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=group)


LANE = ("draft_length", "rule", "length_policy", "overlap", "memory_budget_mb")
"""The settings that a lane of a race or a sweep may have of its own."""
LANE_HELP = (
    "A lane, as name or name,key=value,key=value; can be repeated. Keys are the proposer's options, "
    f"{', '.join(LANE)}, r.NAME for the rule's and l.NAME for the length policy's options."
)
TEXT_SETTINGS = ("max_new_tokens", "seed", *SAMPLING)
"""The settings that all lanes share, by the same names here."""
USUAL = Settings()
DRAFTS = ("larger_draft", "parallel_draft", "foreign_draft")
MODELS, GUESSING, JUDGING, TEXT = "Models", "Guessing", "Judging", "Text"
OPEN = "If left out: as the model's generation config sets it."
PAYS = (
    f"If left out: what pays with the model on a CPU, where that is known, else {USUAL.draft_length} and "
    f"{USUAL.length_policy}."
)
PAIRS = "as name=value; can be repeated, and the command 'proposers' lists them."


@contextmanager
def flags() -> Iterator[None]:
    """Name the flag, where a refusal begins with the setting."""
    try:
        yield
    except SettingsError as error:
        said = re.sub(r"^'(\w+)(\.\d+)?'", lambda found: f"--{found[1].replace('_', '-')}", str(error))
        raise SettingsError(said) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options that decode and race have in common."""

    model: Annotated[
        str | None,
        _option(MODELS, "--model", "-m", help="Target: bundled, a catalogue name, hub id, folder."),
    ] = None
    draft: Annotated[
        str | None, _option(MODELS, "--draft", "-d", help="Draft model; the catalogue's partner by default.")
    ] = None
    larger_draft: Annotated[
        str | None, _option(MODELS, help="Second draft, for lanes with the option draft=larger.")
    ] = None
    parallel_draft: Annotated[
        str | None,
        _option(MODELS, help="Draft trained with mask tokens, for the proposer parallel-draft."),
    ] = None
    foreign_draft: Annotated[
        str | None,
        _option(MODELS, help="Draft with another tokenizer, for the proposers text-draft and shared-tokens."),
    ] = None
    medusa: Annotated[str | None, _option(MODELS, help="Folder of trained Medusa heads for this target.")] = (
        None
    )
    eagle: Annotated[str | None, _option(MODELS, help="Folder of a trained EAGLE head for this target.")] = (
        None
    )
    eagle3: Annotated[str | None, _option(MODELS, help="Folder of an EAGLE-3 head for this target.")] = None
    mtp: Annotated[
        str | None, _option(MODELS, help="Folder of multi-token-prediction modules for this target.")
    ] = None
    block: Annotated[
        str | None, _option(MODELS, help="Folder of a block head (DFlash, DSpark) for this target.")
    ] = None
    device: Annotated[str, _option(MODELS, help="auto, cpu, cuda or mps.")] = "auto"
    dtype: Annotated[str, _option(MODELS, help="auto, float32, bfloat16, float16, or 8-bit weights.")] = (
        "auto"
    )
    option: Annotated[
        list[str] | None, _option(GUESSING, "--option", "-o", help=f"An option of the proposer, {PAIRS}")
    ] = None
    draft_length: Annotated[
        int | None,
        _option(GUESSING, "--draft-length", "-g", help=f"γ, how many tokens are proposed per round. {PAYS}"),
    ] = None
    length_policy: Annotated[
        str | None, _option(GUESSING, help=f"How far to guess: {names_of(LENGTH_POLICIES)}. {PAYS}")
    ] = None
    length_option: Annotated[
        list[str] | None, _option(GUESSING, help=f"An option of the length policy, {PAIRS}")
    ] = None
    overlap: Annotated[
        bool, _option(GUESSING, "--overlap", help="Draft the next round while the target checks this one.")
    ] = USUAL.overlap
    memory_budget_mb: Annotated[
        float, _option(GUESSING, help="Keep a round's tree within this memory, in MB; 0 is no limit.")
    ] = USUAL.memory_budget_mb
    rule: Annotated[str, _option(JUDGING, "--rule", "-r", help=f"{names_of(RULES)}.")] = USUAL.rule
    rule_option: Annotated[list[str] | None, _option(JUDGING, help=f"An option of the rule, {PAIRS}")] = None
    max_new_tokens: Annotated[
        int, _option(TEXT, "--max-new-tokens", "-n", help="How many tokens to write at most.")
    ] = USUAL.max_new_tokens
    temperature: Annotated[float, _option(TEXT, "--temperature", "-t", help="0 is greedy.")] = (
        USUAL.temperature
    )
    top_k: Annotated[int, _option(TEXT, help="Keep the k most likely tokens; 0 keeps all.")] = USUAL.top_k
    top_p: Annotated[
        float, _option(TEXT, help="Keep the most likely tokens that make up this probability; 1 keeps all.")
    ] = USUAL.top_p
    min_p: Annotated[
        float | None,
        _option(
            TEXT, help=f"Keep tokens at least this likely, as a share of the most likely; 0 keeps all. {OPEN}"
        ),
    ] = USUAL.min_p
    repetition_penalty: Annotated[
        float | None,
        _option(TEXT, help=f"Above 1, tokens of the text so far become less likely; 1 is off. {OPEN}"),
    ] = USUAL.repetition_penalty
    no_repeat_ngram_size: Annotated[
        int | None, _option(TEXT, help=f"Write no sequence of this many tokens twice; 0 is off. {OPEN}")
    ] = USUAL.no_repeat_ngram_size
    seed: Annotated[int, _option(TEXT, help="Fixes every random number.")] = USUAL.seed
    chat: Annotated[
        bool | None,
        _option(
            TEXT,
            "--chat/--no-chat",
            help="Send the prompt as a message in the model's chat template, or as bare text. By default the template "
            "is used where the model has one.",
        ),
    ] = None
    system: Annotated[str, _option(TEXT, help="The system line in place of the chat template's own.")] = ""
    stop: Annotated[
        list[str] | None, _option(TEXT, help="Stop once this text is written; can be repeated.")
    ] = None

    @flags()
    def plain(self) -> Settings:
        """Plain decoding of the same text: no proposer, so the rule does not matter."""
        same = {name: getattr(self, name) for name in TEXT_SETTINGS}
        return Settings(proposer="none", stop=tuple(self.stop or ()), **same)

    @flags()
    def lane(self, proposer: str, options: dict[str, str]) -> Settings:
        """The settings of one lane, checked as far as possible without models.

        Raises:
            SettingsError: one sentence.
        """
        kind, rule = proposer_class(proposer), rule_class(self.rule)
        self._check_heads(kind)
        policy = policy_class(Settings(length_policy=self.length_policy or USUAL.length_policy))
        settings = self.plain().but(
            proposer=proposer,
            options=read(f"the proposer '{proposer}'", fields(kind.Options), options),
            **{name: value for name in LANE if (value := getattr(self, name)) is not None},
            rule_options=read(f"the rule '{self.rule}'", fields(rule.Options), pairs_of(self.rule_option)),
            length_options=read(
                f"the length policy '{policy.name}'", fields(policy.Options), pairs_of(self.length_option)
            ),
        )
        check(settings)
        return settings

    def _check_heads(self, kind: type[Proposer]) -> None:
        """Refuse a proposer whose heads neither were named nor ship for the model."""
        name = catalogue.BUNDLED if self.model is None else self.model
        entry = catalogue.find(name)
        for heads in set(kind.needs) & set(HEADS):
            if heads not in self.parts and catalogue.present(getattr(entry, heads, None)) is None:
                raise SettingsError(
                    f"The proposer '{kind.name}' needs trained {heads} heads, and none ship for '{name}'. Name "
                    f"some with --{heads}, or train some (see training/)."
                )

    def asked(self, models: Models, text: str) -> str | Chat:
        """The prompt as requested: in the chat template by default, where the models have one."""
        wrap = models.chat_template if self.chat is None else self.chat
        if self.system and not wrap:
            raise SettingsError("A system line needs the chat template. Leave --system or --no-chat out.")
        return Chat(text, self.system) if wrap else text

    @property
    def parts(self) -> dict[str, str]:
        """The other drafts and the trained heads that were named."""
        named = {name: getattr(self, name) for name in DRAFTS + HEADS}
        return {name: path for name, path in named.items() if path is not None}


def with_shared(command: Callable[..., None], hidden: Container[str] = ()) -> Callable[..., None]:
    """`command` with the options of `SharedOptions` added to its own; they are passed together as its first argument.

    Args:
        hidden: which of them its help leaves out, as the command refuses them.
    """
    own = [
        part.replace(kind=Parameter.KEYWORD_ONLY)
        for part in signature(command, eval_str=True).parameters.values()
    ]
    own = own[1:]
    hints = get_type_hints(SharedOptions, include_extras=True)
    hints |= {name: _hidden(hint) for name, hint in hints.items() if name in hidden}
    common = [
        Parameter(part.name, Parameter.KEYWORD_ONLY, default=part.default, annotation=hints[part.name])
        for part in attributes(SharedOptions)
    ]
    names = {part.name for part in own}

    @wraps(command)
    def run(**given: Any) -> None:
        with sentences():
            shared = SharedOptions(**{name: value for name, value in given.items() if name not in names})
            command(shared, **{name: value for name, value in given.items() if name in names})

    run.__signature__ = Signature([*own, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*own, *common)}
    del run.__wrapped__
    return run


def _hidden(hint: Any) -> Any:
    option = copy(hint.__metadata__[0])
    option.hidden = True
    return Annotated[hint.__origin__, option]


def lanes_of(shared: SharedOptions, given: Sequence[str], what: str) -> list[tuple[str, Settings]]:
    """Plain decoding and the given lanes, each with the text that names it.

    Args:
        given: name,key=value,… (or name:key=value,…): a key is an option of the proposer, one of `LANE`, or an option
            of the rule (r.name) or of the length policy (l.name).
        what: the lanes are of, such as "race".

    Raises:
        SettingsError: one sentence.
    """
    everywhere = pairs_of(shared.option)
    unused, there = set(everywhere), set[str]()
    lanes = [("none", shared.plain())]
    for text in given:
        name, *rest = re.split(r"\s*[,:]\s*(?=[\w.-]+\s*=)", text.strip())
        if name == "none":
            continue
        bare, _, key = name.replace(":", ",").partition(",")
        if key and bare in PROPOSERS:
            raise SettingsError(
                f"The lane '{text}' has no value for '{key}'; write it as {bare},{key}=VALUE."
            )
        known = fields(proposer_class(name).Options)
        there |= known.keys()
        options = {key: value for key, value in everywhere.items() if key in known}
        unused -= options.keys()
        own = {key: value.strip() for key, value in pairs_of(rest).items()}
        spelled = ",".join((name, *(f"{key}={value}" for key, value in own.items())))
        lanes.append((spelled, _lane(shared, text, name, options, own)))
    if unused:
        name = min(unused)
        raise SettingsError(
            f"No proposer of this {what} has an option '{name}'.{meant(name, there)} 'proposers' lists them."
        )
    return lanes


def apart(lanes: Iterable[tuple[str, Settings]]) -> dict[str, Settings]:
    """Lanes by name; one that is given again is numbered, so that a lane can race against itself."""
    found: dict[str, Settings] = {}
    given: Counter[str] = Counter()
    for name, settings in lanes:
        given[name] += 1
        found[name if given[name] == 1 else f"{name} ({given[name]})"] = settings
    return found


def _lane(
    shared: SharedOptions, text: str, name: str, options: dict[str, str], pairs: dict[str, str]
) -> Settings:
    known = fields(proposer_class(name).Options)
    own: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for key, value in pairs.items():
        if key in known:
            options[key] = value
        elif key in LANE:
            own[key] = value
        elif key.startswith(("r.", "l.")):
            group = "rule_option" if key.startswith("r.") else "length_option"
            groups.setdefault(group, []).append(f"{key[2:]}={value}")
        else:
            there = [*known, *LANE]
            raise SettingsError(
                f"The lane '{text}' has no '{key}'.{meant(key, there)} Choose one of: {', '.join(there)}, r.…, l.…."
            )
    changes: dict[str, Any] = read(f"the lane '{text}'", fields(Settings), own) | groups
    return replace(shared, **changes).lane(name, options)


def pairs_of(given: list[str] | None) -> dict[str, str]:
    """Options written as name=value."""
    pairs = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingsError(
                f"An option is written as name=value, got '{text}'; the command 'proposers' lists them."
            )
        pairs[name.strip()] = value
    return pairs
