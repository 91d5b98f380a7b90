"""A lane: its settings, and their form in an address and in a record.

Nothing here imports streamlit; `choosing.form` has a lane as the page's widgets do. In an address a lane is
a set of settings: the lab's are separate keys (`proposer=branching&o.width=4`), those of the comparison are one
`lane` each (`lane=branching;rule=kseq;o.width=4`). Lane A of a comparison is always plain decoding, the measured
baseline, and is not named. Usual values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from specdec_core.engine.choice import check
from specdec_core.foundations.errors import SettingsError, SpecdecError
from specdec_core.foundations.options import fields
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import page_settings
from .fields import Field, NameField, Params, did_you_mean, short

MAX_LANES_COMPARED = 6  # lanes, plain decoding among them
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


def usual(recommended: Iterable[Lane]) -> tuple[Lane, ...]:
    """The initial lanes, given those recommended, best first."""
    return tuple(islice(recommended, 3)) or DEFAULT


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


def table(proposer: str = USUAL.proposer) -> tuple[Field, ...]:
    """A lane's settings besides the options of their owners; `proposer` is the usual one."""
    return (
        _of_owners("proposer", proposer),
        page_settings.GAMMA,
        _of_owners("rule", USUAL.rule),
        _of_owners("length", USUAL.length_policy),
        page_settings.OVERLAP,
        page_settings.MEMORY,
    )


def _of_owners(key: str, usual: str) -> NameField:
    owners = next(each.owners for each in TABLES.values() if each.setting == key)
    titles = {name: owners[name].title for name in (usual, *owners)}
    return NameField(key, default=usual, titles=lambda: titles)


def write(lane: Lane, usual: Mapping[str, Any] = MappingProxyType({})) -> dict[str, list[str]]:
    """A lane's settings in an address, without the proposer; defaults are left out.

    `usual` are the proposer's options that an address means which names none.
    """
    found = page_settings.write(table()[1:], {key: getattr(lane, key) for key in KEYS})
    for prefix in TABLES:
        owner, values = lane.owner(prefix)
        left_out = usual if prefix == "o" else {}
        for option in fields(owner.Options).values():
            value = values.get(option.name, option.default)
            if value is not None and value != left_out.get(option.name, option.default):
                found[f"{prefix}.{option.name}"] = [option.write(value)]
    return found


def read(
    params: Params,
    proposer: str = USUAL.proposer,
    usual: Callable[[str], Mapping[str, Any]] = lambda proposer: {},
) -> tuple[Lane, list[str]]:
    """The usable part of an address's lane, and a sentence for each setting that cannot be used.

    Args:
        params: may contain other keys.
        proposer: the usual one.
        usual: a proposer's options that the address means which leaves them out, where they differ from its defaults.
    """
    found, complaints = page_settings.values(params, table(proposer))
    lane = Lane(**{"proposer": proposer, **found})
    options: dict[str, Any] = {}
    for prefix, owned in TABLES.items():
        owner, _ = lane.owner(prefix)
        begin = usual(lane.proposer) if prefix == "o" else {}
        options[owned.options], problems = _read_options(params, prefix, owner, begin)
        complaints += problems
    return replace(lane, **options), complaints


def _read_options(
    params: Params, prefix: str, owner: Any, usual: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The owner's options in an address that differ from their defaults, and a sentence for each that is unusable."""
    known, found, complaints = fields(owner.Options), dict(usual), []
    for key, texts in params.items():
        at, _, name = key.partition(".")
        if at != prefix or not name:
            continue
        option = known.get(name)
        if option is None:
            complaints.append(
                f"{owner.title} has no option “{short(name)}”; it is left out. "
                f"Its options: {', '.join(known) or 'none'}.{did_you_mean(name, known)}"
            )
            continue
        try:
            found[name] = option.read(texts[-1])
        except ValueError:
            instead = usual.get(name, option.default)
            used = "it is left out" if instead is None else f"{option.write(instead)} is used"
            complaints.append(
                f"{option.title} ({owner.title}) has to be {option.wanted}; the link says “{short(texts[-1])}”, "
                f"so {used}."
            )
    return {name: value for name, value in found.items() if value != known[name].default}, complaints


def encode(lane: Lane) -> str:
    """A lane of a comparison as address text."""
    return ";".join([lane.proposer, *(f"{key}={_safe(text)}" for key, (text,) in write(lane).items())])


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
    params = {key: [unquote(value)] for key, value in given.items() if key not in strange}
    lane, problems = read({**params, "proposer": [name]})
    problems += [f"A lane has no setting “{short(key)}”; it is left out." for key in strange[:3]]
    return lane, complaints + problems


def from_address(texts: Sequence[str], usual: Sequence[Lane] = DEFAULT) -> tuple[list[Lane], list[str]]:
    """All lanes of an address but the plain one, and its errors; the `usual` ones if it names none."""
    if not texts:
        return list(usual), []
    complaints = []
    if len(texts) > MAX_LANES_COMPARED - 1:
        complaints.append(
            f"A comparison has at most {MAX_LANES_COMPARED} lanes; the link's other ones are left out."
        )
    found = []
    for text in texts[: MAX_LANES_COMPARED - 1]:
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


def _drafts(lane: Lane) -> str:
    """What the lane's proposer drafts; nothing where its options are none."""
    try:
        return PROPOSERS[lane.proposer].drafts(Settings(proposer=lane.proposer, options=dict(lane.options)))
    except SettingsError:
        return ""


def _safe(text: str) -> str:
    return quote(text, safe=" .,:[]-_")
