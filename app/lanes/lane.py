"""The lanes of a comparison: what each one is set to, how an address says so, and how they are told apart.

Nothing here imports streamlit. Lane A is always plain decoding, the measured baseline; an address names the others,
each in one `lane` of the form `branching;rule=kseq;o.width=4`. What is as usual is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote

from specdec_core.engine.check import check
from specdec_core.errors import SettingsError, SpecdecError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.options import OptionField, fields
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import links

MOST = 6  # lanes, plain decoding among them
MAX_TEXT = 4_000  # characters of one lane in an address
USUAL = Settings()
# Where a lane's options live: the prefix in the address, what names their owner, the owners.
TABLES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "o": ("proposer", PROPOSERS),
    "r": ("rule", RULES),
    "l": ("length", LENGTH_POLICIES),
}


LETTERS = "ABCDEF"  # lane A is plain decoding; colour, dash and symbol are those of `charts.palette.LANES`


@dataclass(frozen=True, slots=True)
class Lane:
    """The choices of one lane that are its own; prompt, temperature, length and seed are shared by all."""

    proposer: str = USUAL.proposer
    gamma: int = USUAL.draft_length
    rule: str = USUAL.rule
    length: str = USUAL.length_policy
    overlap: bool = False
    memory: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    rule_options: Mapping[str, Any] = field(default_factory=dict)
    length_options: Mapping[str, Any] = field(default_factory=dict)

    def of(self, prefix: str) -> tuple[Any, Mapping[str, Any]]:
        """The owner of a prefix's options, and those that differ from their defaults."""
        name = {"o": self.proposer, "r": self.rule, "l": self.length}[prefix]
        values = {"o": self.options, "r": self.rule_options, "l": self.length_options}[prefix]
        return TABLES[prefix][1][name], values

    def settings(self, shared: Settings) -> Settings:
        """The lane as the core decodes it; `shared` holds what all lanes have in common.

        Raises:
            SettingsError: one sentence about the first thing that does not fit.
        """
        settings = shared.but(
            proposer=self.proposer,
            draft_length=self.gamma,
            rule=self.rule,
            length_policy=self.length,
            overlap=self.overlap and PROPOSERS[self.proposer].can_overlap,
            memory_budget_mb=self.memory,
            options=dict(self.options),
            rule_options=dict(self.rule_options),
            length_options=dict(self.length_options),
        )
        check(settings)
        return settings

    def refusal(self, shared: Settings, missing: Mapping[str, str | None]) -> str | None:
        """Why this lane cannot run, as a sentence; `missing` has the models' reason for each proposer."""
        try:
            self.settings(shared)
        except SpecdecError as error:
            return str(error)
        return missing.get(self.proposer)


DEFAULT = (Lane(), Lane(proposer="prompt-lookup"))


def usual(guessers: Mapping[str, Mapping[str, Any]]) -> tuple[Lane, ...]:
    """The lanes to begin with where these proposers, the best first, are worth a try with these options."""
    return (
        tuple(Lane(proposer=name, options=options) for name, options in islice(guessers.items(), 3))
        or DEFAULT
    )


@dataclass(frozen=True, slots=True)
class Preset:
    """Lanes that show a known effect."""

    name: str
    title: str
    look_for: str
    lanes: tuple[Lane, ...]
    prompt: str | None = None  # id of the example prompt it is about
    chat_prompt: str | None = None  # likewise, for models that answer messages
    temperature: float | None = None


PRESETS = (
    Preset(
        "proposers",
        "Proposers on code",
        "Which lane guesses code best, and which is fastest? They may not be the same.",
        (Lane(), Lane(proposer="prompt-lookup"), Lane(proposer="branching"), Lane(proposer="lookahead"),
         Lane(proposer="early-exit")),
        "code/class-with-getters",
        "chat-code/stack",
        0.0,
    ),
    Preset(
        "length",
        "How long a draft",
        "Longer drafts save more target passes and waste more guesses. Where is the best γ?",
        (Lane(gamma=1), Lane(gamma=3), Lane(gamma=6), Lane(gamma=12), Lane(gamma=12, length="confidence")),
    ),
    Preset(
        "trees",
        "Trees and chains",
        "A tree has more guesses at each position, but needs a wider pass.",
        (Lane(), Lane(proposer="branching", options={"width": 2, "nodes": 8}),
         Lane(proposer="branching", options={"width": 4, "nodes": 32}), Lane(proposer="medusa"),
         Lane(proposer="eagle")),
    ),
    Preset(
        "lossy",
        "Lossy rules",
        "Accepting more has a price: see how far the text departs from the target's.",
        (Lane(), Lane(rule="typical"), Lane(rule="confidence"), Lane(rule="ensemble")),
        None,
        None,
        0.8,
    ),
)  # fmt: skip


def encode(lane: Lane) -> str:
    """A lane as its address has it."""
    parts = [lane.proposer]
    for key, value, usual in (
        ("gamma", lane.gamma, USUAL.draft_length),
        ("rule", lane.rule, USUAL.rule),
        ("length", lane.length, USUAL.length_policy),
        ("overlap", "true" if lane.overlap else "false", "false"),
        ("memory", _number(lane.memory), "0"),
    ):
        if value != usual:
            parts.append(f"{key}={value}")
    for prefix in TABLES:
        owner, values = lane.of(prefix)
        known = fields(owner.Options)
        parts += [f"{prefix}.{name}={_safe(known[name].write(value))}" for name, value in values.items()]
    return ";".join(parts)


def decode(text: str) -> tuple[Lane, list[str]]:
    """The lane that an address names, as far as it can be used, and a sentence for each part that cannot."""
    name, *parts = text[:MAX_TEXT].split(";")
    complaints: list[str] = []
    if len(text) > MAX_TEXT:
        complaints.append(f"A lane of the link is longer than {MAX_TEXT:,} characters and was cut off there.")
    if name not in PROPOSERS or name == "none":
        complaints.append(
            "Plain decoding is in every comparison already; a draft model replaces the second one."
            if name == "none"
            else f"The link requests the proposer “{_short(name)}”, which does not exist here; a draft model is used."
        )
        name = USUAL.proposer
    given = dict(part.partition("=")[::2] for part in parts if part)
    plain: dict[str, Any] = {"proposer": name}
    for number, key in ((links.GAMMA, "gamma"), (links.MEMORY, "memory")):
        if key in given:
            text_value = given.pop(key)
            if problem := number.problem(text_value):
                complaints.append(problem)
            else:
                plain[key] = int(float(text_value)) if number.whole else float(text_value)
    for key, table in (("rule", RULES), ("length", LENGTH_POLICIES)):
        wanted = given.pop(key, None)
        if wanted in table:
            plain[key] = wanted
        elif wanted is not None:
            complaints.append(
                f"The link requests the {key} “{_short(wanted)}”, which does not exist here; the usual one is used."
            )
    wanted = given.pop("overlap", "false")
    plain["overlap"] = wanted == "true"
    if wanted not in ("true", "false"):
        complaints.append(
            f"Overlap has to be true or false; the link says “{_short(wanted)}”, so false is used."
        )
    lane = Lane(**plain)
    owners = {}
    for prefix in TABLES:
        owner, _ = lane.of(prefix)
        owners[prefix] = links.Owner(owner.name, owner.title, fields(owner.Options))
    found, problems = links.options({key: unquote(value) for key, value in given.items()}, owners)
    strange = [key for key in given if key.partition(".")[0] not in TABLES or "." not in key]
    complaints += problems
    complaints += [f"A lane has no setting “{_short(key)}”; it is left out." for key in strange[:3]]
    options: dict[str, dict[str, Any]] = {prefix: {} for prefix in TABLES}
    for key, value in found.items():
        prefix, _, option = key.partition(".")
        if value != owners[prefix].fields[option].default:
            options[prefix][option] = value
    lane = Lane(**plain, options=options["o"], rule_options=options["r"], length_options=options["l"])
    return lane, complaints


def from_address(texts: Sequence[str], usual: Sequence[Lane] = DEFAULT) -> tuple[list[Lane], list[str]]:
    """All lanes of an address but the plain one, and what is wrong with it; the `usual` ones if it names none."""
    if not texts:
        return list(usual), []
    complaints = []
    if len(texts) > MOST - 1:
        complaints.append(f"A comparison has at most {MOST} lanes; the link's other ones are left out.")
    found = []
    for text in texts[: MOST - 1]:
        lane, problems = decode(text)
        found.append(lane)
        complaints += problems
    return found, complaints


def to_address(lanes: Iterable[Lane], usual: Sequence[Lane] = DEFAULT) -> list[str]:
    """What the address says of the lanes beside the plain one: nothing where they are the `usual` ones."""
    lanes = list(lanes)
    return [] if lanes == list(usual) else [encode(lane) for lane in lanes]


def words(lane: Lane) -> list[str]:
    """What is not as usual about a lane, for its card and its label; the proposer's title apart."""
    kind, rule = PROPOSERS[lane.proposer], RULES[lane.rule]
    said = []
    if asks_length(lane):
        said.append(f"γ = {lane.gamma}" if lane.length == "fixed" else f"γ up to {lane.gamma}")
    said += _told(fields(kind.Options), lane.options)
    if lane.rule != USUAL.rule:
        said.append(rule.title if rule.lossless else f"lossy: {rule.title}")
    said += _told(fields(rule.Options), lane.rule_options)
    if lane.length != USUAL.length_policy:
        said.append(LENGTH_POLICIES[lane.length].title)
    said += _told(fields(LENGTH_POLICIES[lane.length].Options), lane.length_options)
    if lane.overlap and kind.can_overlap:
        said.append("overlap")
    if lane.memory:
        said.append(f"{lane.memory:g} MB a round")
    return said


def asks_length(lane: Lane) -> bool:
    """Whether γ means something to the lane's proposer."""
    kind = PROPOSERS[lane.proposer]
    try:
        chain = kind.drafts(Settings(proposer=lane.proposer, options=dict(lane.options))) == "chain"
    except SettingsError:
        return False
    return bool(chain and "length" in kind.heeds)


def label(lane: Lane, number: int) -> str:
    """What a lane is called in charts and tables: its letter, its proposer, and what is not as usual."""
    return f"{LETTERS[number]} · " + ", ".join([PROPOSERS[lane.proposer].title, *words(lane)])


def _told(known: Mapping[str, OptionField], values: Mapping[str, Any]) -> list[str]:
    return [
        f"{known[name].title.lower()} = {_short(known[name].write(value))}" for name, value in values.items()
    ]


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _safe(text: str) -> str:
    return quote(text, safe=" .,:[]-_")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
