"""The page's state in its address: what a link may contain, and a sentence for everything invalid.

Streamlit syncs widgets and address by itself but silently drops invalid values; this reports them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec_core.foundations.errors import nearest
from specdec_core.foundations.options import OptionField
from specdec_core.settings import MAX_STOP_STRINGS

MAX_PROMPT = 20_000
MAX_STOP_LENGTH = 64
MAX_PROMPT_IN_LINK = 2_000
MAX_SYSTEM = 500  # characters of a system line
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric setting: its address key, title, range and default.

    Attributes:
        unset: what applies if nothing is given, where that is not the default.
    """

    key: str
    title: str
    low: float
    high: float
    default: float
    whole: bool = True
    unset: str = ""

    def problem(self, text: str) -> str | None:
        """The error in `text` as a value, if any."""
        used = self.unset or f"{self.default:g}"
        try:
            value = float(text)
        except ValueError:
            return f"{self.wanted}; the link says “{short(text)}”, so {used} is used."
        return None if self.fits(value) else f"{self.wanted}; the link says {short(text)}, so {used} is used."

    def refusal(self, typed: float | None) -> str | None:
        """The error in a number that was typed, if any."""
        return None if typed is None or self.fits(typed) else f"{self.wanted}, not {_figure(typed)}."

    @property
    def wanted(self) -> str:
        """The beginning of a sentence about another value."""
        kind = "a whole number" if self.whole else "a number"
        return f"{self.title} has to be {kind} from {_figure(self.low)} to {_figure(self.high)}"

    def fits(self, value: float) -> bool:
        """Whether the value can be used."""
        return (
            math.isfinite(value)
            and self.low <= value <= self.high
            and not (self.whole and value != int(value))
            and not (self is TEMPERATURE and 0 < value < 0.01)
        )


GAMMA = Number("gamma", "The draft length γ", 1, 16, 4)
TEMPERATURE = Number("temperature", "The temperature", 0, 2, 0, whole=False)
TOP_K = Number("top_k", "Top-k", 0, 1000, 0)
TOP_P = Number("top_p", "Top-p", 0.05, 1, 1, whole=False)
MIN_P = Number("min_p", "Min-p", 0, 1, 0, whole=False)
PENALTY = Number(
    "repetition_penalty", "The repetition penalty", 0.5, 2, 1, whole=False, unset="the usual one"
)
NGRAM = Number("no_repeat_ngram_size", "The length of sequences written once", 0, 20, 0)
SEED = Number("seed", "The seed", 0, 2**31 - 1, 0)
TOKENS = Number("tokens", "The number of new tokens", 1, 1024, 128)
MEMORY = Number("memory", "The memory budget", 0, 1_000_000, 0, whole=False)
NUMBERS = (GAMMA, TEMPERATURE, TOP_K, TOP_P, MIN_P, PENALTY, NGRAM, SEED, TOKENS, MEMORY)
SHARED = tuple(number for number in NUMBERS if number not in (GAMMA, MEMORY))  # by all lanes of a comparison
SWEEP_MOST = Number("sweep_most", "The number of prompts of each kind", 1, 20, 3)
SWEEP_REPEATS = Number("sweep_repeats", "The number of repeats", 1, 10, 3)
SWEEP = (SWEEP_MOST, SWEEP_REPEATS)
# A lane's options for its proposer, rule and length policy: o.max_ngram=3
PREFIXES = ("o", "r", "l")


def problems(
    params: Mapping[str, str],
    choices: Mapping[str, Mapping[str, str]],
    numbers: Sequence[Number] = NUMBERS,
    further: Collection[str] = PREFIXES,
    page: str = "lab",
) -> list[str]:
    """A sentence for every value of a link that cannot be used.

    Args:
        choices: the options of the named settings with their titles, the default first.
        numbers: the numeric settings of the page.
        further: keys handled elsewhere, or their prefixes before the dot.
        page: the page whose parts the link can hide.
    """
    found = []
    for number in numbers:
        if number.key in params and (problem := number.problem(params[number.key])):
            found.append(problem)
    for key, options in choices.items():
        if key in params and params[key] not in options:
            found.append(unknown(key, params[key], next(iter(options.values())), options))
    if params.get("chat", "true") not in ("true", "false"):
        found.append(
            f"The chat template is set by chat=true or chat=false; the link says “{short(params['chat'])}”."
        )
    if len(params.get("system", "")) > MAX_SYSTEM:
        found.append(f"The link's system line is longer than {MAX_SYSTEM} characters and is left out.")
    if params.get("generation", "true") not in ("true", "false"):
        found.append(
            "Whether the model's generation config is used has to be true or false; the link says "
            f"“{short(params['generation'])}”, so true is used."
        )
    if params.get("model") != "other" and (others := [key for key in ("target", "draft") if params.get(key)]):
        found.append(
            f"The link names a {' and a '.join(others)}, and only model=other takes models by their ids; "
            f"{'it is' if len(others) == 1 else 'they are'} left out."
        )
    if len(params.get("prompt", "")) > MAX_PROMPT:
        found.append(f"The link's prompt is longer than {MAX_PROMPT:,} characters and was cut off there.")
    known = {number.key for number in numbers} | set(choices) | OTHERS
    strange = [key for key in params if key not in known and key.partition(".")[0] not in further]
    if strange:
        named = ", ".join(f"“{short(key)}”" for key in strange[:3])
        found.append(
            f"The link has settings this page does not know ({named}); they are left out."
            + (_meant(strange[0], known) if len(strange) == 1 else "")
        )
    return found + hiding_problems(params, page)


def unknown(key: str, name: str, used: str, known: Iterable[str]) -> str:
    """The sentence about an unknown name in a link; `used` is the title of its replacement."""
    return (
        f"The link requests the {key} “{short(name)}”, which does not exist here; “{used}” is used."
        f"{_meant(name, known)}"
    )


def _meant(name: str, known: Iterable[str]) -> str:
    """A question to follow a sentence, with the known name that `name` is nearest to; empty where none is near."""
    near = nearest(name, known)
    return f" Did you mean “{near}”?" if near else ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a prefix's options: a name, a title, the options by name, and values used instead of defaults."""

    name: str
    title: str
    fields: Mapping[str, OptionField]
    usual: Mapping[str, Any] = field(default_factory=dict)


def options(params: Mapping[str, str], owners: Mapping[str, Owner]) -> tuple[dict[str, Any], list[str]]:
    """The options that a link names, by their address keys, and a sentence for each that cannot be used.

    `owners` gives the owner for each prefix in this link.
    """
    found, complaints = {}, []
    for key, text in params.items():
        prefix, _, name = key.partition(".")
        if prefix not in owners or not name:
            continue
        owner = owners[prefix]
        option = owner.fields.get(name)
        if option is None:
            known = ", ".join(owner.fields) or "none"
            complaints.append(
                f"{owner.title} has no option “{short(name)}”; it is left out. Its options: {known}."
                f"{_meant(name, owner.fields)}"
            )
            continue
        try:
            found[key] = option.read(text)
        except ValueError:
            instead = owner.usual.get(name, option.default)
            used = "it is left out" if instead is None else f"{option.write(instead)} is used"
            complaints.append(
                f"{option.title} ({owner.title}) has to be {option.wanted}; the link says “{short(text)}”, so {used}."
            )
    return found, complaints


def unusable(params: Mapping[str, str]) -> list[str]:
    """Numeric settings of a link whose values no widget accepts."""
    found = [
        number.key
        for number in (*NUMBERS, *SWEEP)
        if number.key in params and number.problem(params[number.key])
    ]
    return found + [
        key
        for key, unfit in (
            ("chat", params.get("chat", "true") not in ("true", "false")),
            ("system", len(params.get("system", "")) > MAX_SYSTEM),
        )
        if unfit
    ]


def stop_problems(stops: list[str]) -> list[str]:
    """A sentence if a link's stop texts are too many or too long; they are then ignored."""
    if len(stops) <= MAX_STOP_STRINGS and all(len(text) <= MAX_STOP_LENGTH for text in stops):
        return []
    return [
        f"A link can name up to {MAX_STOP_STRINGS} stop texts of up to {MAX_STOP_LENGTH} characters; "
        "this one goes beyond that, so none is used."
    ]


OTHERS = {
    "prompt",
    "preset",
    "run",
    "round",
    "step",
    "node",
    "lead",
    "view",
    "stop",
    "chat",
    "system",
    "target",
    "draft",
    "overlap",
    "generation",
    "hide",
    "present",
}

# For each page, what a link can hide, ?hide=settings,charts: never a part of the player, which has the prompt and
# figures of its own.
PARTS = {
    "lab": {
        "title": "Title and glossary",
        "prompt": "Prompt field",
        "choices": "Proposer, γ, temperature",
        "run": "Run and Stop",
        "settings": "More settings",
        "numbers": "Numbers below the player",
        "charts": "Charts below the player",
        "download": "Downloads",
        "link": "Teacher's link",
    },
    "compare": {
        "title": "Title and glossary",
        "prompt": "Prompt field",
        "choices": "Temperature, length",
        "settings": "Models, text and seed",
        "run": "Run and Stop",
        "lanes": "Setting up the lanes",
        "why": "Why and where",
        "table": "Table",
        "charts": "Charts",
        "sweep": "Many prompts",
        "whatif": "What if",
        "download": "Take along",
        "link": "Teacher's link",
    },
    "library": {
        "title": "Title and glossary",
        "search": "Search and order",
        "own": "Your runs",
        "examples": "Recorded examples",
        "tools": "Share, rename, delete",
        "download": "Download",
        "numbers": "Table",
        "link": "Teacher's link",
    },
}
ALL_PARTS = frozenset(part for parts in PARTS.values() for part in parts)


def hidden(params: Mapping[str, str]) -> set[str]:
    """The parts that a link hides, on any page."""
    return _hide_list(params) & ALL_PARTS


def hiding_problems(params: Mapping[str, str], page: str) -> list[str]:
    """A sentence for each name to hide that is not a part of the page, and for a `present` other than
    1."""
    found = []
    if strange := sorted(_hide_list(params) - PARTS[page].keys()):
        named = ", ".join(f"“{short(name)}”" for name in strange[:3])
        found.append(
            f"The link hides {named}, which this page does not have; it can hide {', '.join(PARTS[page])}."
        )
    if params.get("present", "1") != "1":
        found.append(f"The presentation begins with present=1; the link says “{short(params['present'])}”.")
    return found


def _hide_list(params: Mapping[str, str]) -> set[str]:
    return set(filter(None, params.get("hide", "").replace(" ", "").split(",")))


def address_of_prompt(prompt: str, preset: str | None, default: str | None) -> dict[str, str]:
    """The prompt's address values: none for the first preset, a preset's name, or a short text."""
    if preset is not None:
        return {} if preset == default else {"preset": preset}
    return {"prompt": prompt} if 0 < len(prompt) <= MAX_PROMPT_IN_LINK else {}


def whole(text: str | None) -> int | None:
    """A small whole number from an address, or None. −1 is the token that the target wrote itself."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdecimal() and len(digits) < 7 else None


def _figure(value: float) -> str:
    """A bound as text, without an exponent."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def short(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= 40 else text[:37] + "…"
