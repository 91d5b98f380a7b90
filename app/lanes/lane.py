"""A lane: its settings, and their form in an address and in a record.

Nothing here imports streamlit; `choosing.lane_state` holds a lane as the page's widgets do. In an address a lane is
a set of settings: the lab's are separate keys (`proposer=branching&o.width=4`), those of the comparison are one
`lane` each (`lane=branching;rule=kseq;o.width=4`). Lane A of a comparison is always plain decoding, the measured
baseline, and is not named. Usual values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from specdec_core.engine.check import check
from specdec_core.foundations.errors import SettingsError, SpecdecError
from specdec_core.foundations.options import fields
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import links

MOST = 6  # lanes, plain decoding among them
MAX_TEXT = 4_000  # characters of one lane in an address
USUAL = Settings()


class Table(NamedTuple):
    """The owner of the options under a prefix: the lane's setting that names it, the lane's field that holds them, and
    all owners."""

    setting: str
    options: str
    owners: Mapping[str, Any]


TABLES = {
    "o": Table("proposer", "options", PROPOSERS),
    "r": Table("rule", "rule_options", RULES),
    "l": Table("length", "length_options", LENGTH_POLICIES),
}
KEYS = ("proposer", "gamma", "rule", "length", "overlap", "memory")  # the settings besides the options
LETTERS = "ABCDEF"  # lane A is plain decoding; colour, dash and symbol are those of `theme.LANES`


@dataclass(frozen=True, slots=True)
class Lane:
    """The settings of one lane; prompt, temperature, length and seed are shared by all lanes.

    Options with their default values are left out.
    """

    proposer: str = USUAL.proposer
    gamma: int = USUAL.draft_length
    rule: str = USUAL.rule
    length: str = USUAL.length_policy
    overlap: bool = False
    memory: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    rule_options: Mapping[str, Any] = field(default_factory=dict)
    length_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Lane:
        """The lane that was decoded with these settings."""
        return cls(
            proposer=settings.proposer,
            gamma=settings.draft_length,
            rule=settings.rule,
            length=settings.length_policy,
            overlap=settings.overlap,
            memory=settings.memory_budget_mb,
            options=settings.options,
            rule_options=settings.rule_options,
            length_options=settings.length_options,
        )

    def owner(self, prefix: str) -> tuple[Any, Mapping[str, Any]]:
        """The owner of a prefix's options, and the options that differ from their defaults."""
        table = TABLES[prefix]
        return table.owners[getattr(self, table.setting)], getattr(self, table.options)

    def settings(self, shared: Settings) -> Settings:
        """The lane as the core's settings; `shared` holds what all lanes have in common.

        Raises:
            SettingsError: one sentence about the first invalid setting.
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
    """The initial lanes, given the recommended proposers, best first, and their options."""
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
    prompt: str | None = None  # id of its example prompt
    chat_prompt: str | None = None  # the same for models that answer messages
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
        "Accepting what the target would not have written: what it gains, and how far the text departs.",
        (Lane(), Lane(rule="typical"), Lane(rule="confidence"), Lane(rule="ensemble")),
        None,
        None,
        0.8,
    ),
)  # fmt: skip


def write(lane: Lane) -> dict[str, str]:
    """A lane's settings in an address, without the proposer; usual values are left out."""
    found = {
        key: value
        for key, value, usual in (
            ("gamma", str(lane.gamma), str(USUAL.draft_length)),
            ("rule", lane.rule, USUAL.rule),
            ("length", lane.length, USUAL.length_policy),
            ("overlap", "true" if lane.overlap else "false", "false"),
            ("memory", _number(lane.memory), "0"),
        )
        if value != usual
    }
    for prefix in TABLES:
        owner, values = lane.owner(prefix)
        known = fields(owner.Options)
        found |= {f"{prefix}.{name}": known[name].write(value) for name, value in values.items()}
    return found


def read(
    params: Mapping[str, str],
    proposer: str = USUAL.proposer,
    usual: Callable[[str], Mapping[str, Any]] = lambda proposer: {},
) -> tuple[Lane, list[str]]:
    """The usable part of an address's lane, and a sentence for each setting that cannot be used.

    Args:
        params: may contain other keys.
        proposer: the usual one.
        usual: a proposer's usual options for keys missing in the address, where they differ from its defaults.
    """
    complaints: list[str] = []
    found: dict[str, Any] = {"proposer": proposer}
    for table in TABLES.values():
        key = table.setting
        if params.get(key) in table.owners:
            found[key] = params[key]
        elif key in params:
            used = table.owners[found.get(key, getattr(Lane(), key))].title
            complaints.append(links.unknown(key, params[key], used, table.owners))
    for number, key in ((links.GAMMA, "gamma"), (links.MEMORY, "memory")):
        if key in params:
            if problem := number.problem(params[key]):
                complaints.append(problem)
            else:
                value = float(params[key])
                found[key] = int(value) if number.whole else value
    switch = params.get("overlap", "false")
    found["overlap"] = switch == "true"
    if switch not in ("true", "false"):
        complaints.append(
            f"Overlap has to be true or false; the link says “{links.short(switch)}”, so false is used."
        )
    lane = Lane(**found)
    owners = {}
    for prefix in TABLES:
        owner, _ = lane.owner(prefix)
        begin = usual(lane.proposer) if prefix == "o" else {}
        owners[prefix] = links.Owner(owner.name, owner.title, fields(owner.Options), begin)
    named, problems = links.options(params, owners)
    options: dict[str, dict[str, Any]] = {prefix: dict(owner.usual) for prefix, owner in owners.items()}
    for key, value in named.items():
        prefix, _, name = key.partition(".")
        options[prefix][name] = value
    for prefix, table in TABLES.items():
        known = owners[prefix].fields
        found[table.options] = {
            name: value for name, value in options[prefix].items() if value != known[name].default
        }
    return Lane(**found), complaints + problems


def encode(lane: Lane) -> str:
    """A lane of a comparison as address text."""
    return ";".join([lane.proposer, *(f"{key}={_safe(value)}" for key, value in write(lane).items())])


def decode(text: str) -> tuple[Lane, list[str]]:
    """The usable part of a lane in a comparison's address, and a sentence for each part that
    cannot."""
    name, *parts = text[:MAX_TEXT].split(";")
    complaints: list[str] = []
    if len(text) > MAX_TEXT:
        complaints.append(f"A lane of the link is longer than {MAX_TEXT:,} characters and was cut off there.")
    if name == "none":
        complaints.append(
            "Plain decoding is in every comparison already; a draft model replaces the second one."
        )
        name = USUAL.proposer
    given = dict(part.partition("=")[::2] for part in parts if part)
    strange = [
        key
        for key in given
        if key not in KEYS[1:] and (key.partition(".")[0] not in TABLES or "." not in key)
    ]
    params = {key: unquote(value) for key, value in given.items() if key not in strange}
    lane, problems = read({**params, "proposer": name})
    problems += [f"A lane has no setting “{links.short(key)}”; it is left out." for key in strange[:3]]
    return lane, complaints + problems


def from_address(texts: Sequence[str], usual: Sequence[Lane] = DEFAULT) -> tuple[list[Lane], list[str]]:
    """All lanes of an address but the plain one, and its errors; the `usual` ones if it names none."""
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
    """The lanes besides the plain one as address values: none if they are the `usual` ones."""
    lanes = list(lanes)
    return [] if lanes == list(usual) else [encode(lane) for lane in lanes]


def uses_length(lane: Lane) -> bool:
    """Whether γ applies to the lane's proposer."""
    return _drafts(lane) == "chain" and "length" in PROPOSERS[lane.proposer].uses


def guesses_tree(lane: Lane) -> bool:
    """Whether the lane's proposer guesses trees, whose size is its own setting."""
    return "tree" in _drafts(lane)


def _drafts(lane: Lane) -> str:
    """What the lane's proposer drafts; nothing where its options are none."""
    try:
        return PROPOSERS[lane.proposer].drafts(Settings(proposer=lane.proposer, options=dict(lane.options)))
    except SettingsError:
        return ""


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _safe(text: str) -> str:
    return quote(text, safe=" .,:[]-_")
