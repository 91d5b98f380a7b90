"""The examples that ship: recorded traces with a title and a sentence about what to look for, listed in index.toml.

The same file says how each is recorded (`scripts/record_traces.py`). Its sentences hold for any models, because their
numbers are taken from the traces.
"""

from __future__ import annotations

import logging
import re
import string
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.lanes.of_trace import label
from specdec_core.foundations.errors import SpecdecError, TraceError, sentence
from specdec_core.foundations.paths import assets
from specdec_core.models import catalogue
from specdec_core.models.catalogue import BUNDLED
from specdec_core.record.schema import Stats
from specdec_core.record.trace import Trace
from specdec_core.settings import SAMPLING, Settings

from .summary import Summary, summarize

log = logging.getLogger(__name__)

FOLDER = assets() / "traces"
INDEX = "index.toml"
TRACE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

Name = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=48)
Effect = Literal["slower", "misses", "waste", "parts"]


class Recipe(BaseModel):
    """One example in index.toml: its texts, and how it is recorded.

    `prompts` are families or prompts of assets/prompts; of several, the one that `shows` the effect best is kept.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Name
    family: str = Field(BUNDLED, max_length=60)  # of models, as the catalogue calls it
    kind: Literal["proposer", "lesson"]
    title: str = Field(min_length=1, max_length=80)
    look_for: str = Field(min_length=1, max_length=300)
    prompts: list[str] = Field(min_length=1, max_length=8)
    tokens: int = Field(56, ge=8, le=128)
    settings: dict[str, Any] = {}
    shows: Effect | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its traces, without .json: the plain lane first, if there is another."""
        alone = self.settings.get("proposer") == "none"
        return (self.id,) if alone else (f"{self.id}-plain", self.id)

    def lanes(self) -> tuple[Settings, ...]:
        """Its lanes' settings, in the order of `files`.

        Raises:
            SettingsError: one sentence about the first invalid setting.
        """
        lane = Settings(**self.settings, max_new_tokens=self.tokens)
        if lane.proposer == "none":
            return (lane,)
        keep = ("max_new_tokens", *SAMPLING, "seed")
        return Settings(proposer="none", **{name: getattr(lane, name) for name in keep}), lane


@dataclass(frozen=True, slots=True)
class Example:
    """A recorded example: its recipe with the sentence filled in, and its lanes' results.

    `opens` is the round at which the player opens it (see `opening`).
    """

    id: str
    kind: str
    title: str
    look_for: str
    prompt: str
    machine: str
    recorded: str
    files: tuple[str, ...]
    lanes: tuple[Summary, ...]
    opens: int | None


@cache
def files() -> dict[str, Path]:
    """The bundled traces by name: the only files this server reads for a visitor."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.json")) if TRACE_ID.fullmatch(path.stem)}


def recipes(folder: Path = FOLDER) -> tuple[list[Recipe], list[str]]:
    """The recipes of index.toml in order, and a sentence for each entry that is left out."""
    path = folder / INDEX
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:  # the last names line and column
        return [], [f"{path.name} cannot be read: {error}."]
    entries = content.get("example")
    if not isinstance(entries, list) or set(content) != {"example"}:
        return [], [f"{path.name} has to be a list of [[example]] entries and nothing else."]
    found: list[Recipe] = []
    problems = []
    for number, entry in enumerate(entries, 1):
        where = f"{path.name}, example {number}"
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            where += f" (“{entry['id'][:48]}”)"
        try:
            recipe = Recipe.model_validate(entry, strict=True)
            recipe.lanes()
            _check_words(recipe.look_for)
        except ValidationError as error:
            problems.append(f"{where}: {sentence(error)}")
        except (SpecdecError, ValueError, TypeError) as error:
            problems.append(f"{where}: {error}")
        else:
            if catalogue.named(recipe.family) is None:
                problems.append(f"{where}: family: the catalogue has no models “{recipe.family}”.")
            elif recipe.id in (other.id for other in found):
                problems.append(f"{where}: id: there is another example of that name.")
            else:
                found.append(recipe)
    return found, problems


def load(folder: Path = FOLDER) -> tuple[tuple[Example, ...], list[str]]:
    """All examples with valid traces, and a sentence for each that is left out."""
    found, problems = recipes(folder)
    examples = []
    for recipe in found:
        if not any((folder / f"{name}.json").exists() for name in recipe.files) and recipe.family != BUNDLED:
            log.info("The example “%s” has not been recorded yet; it is left out.", recipe.id)
            continue
        try:
            examples.append(build(recipe, folder))
        except (OSError, TraceError, ValueError) as error:
            problems.append(f"{INDEX}, example “{recipe.id}”: {error}")
    return tuple(examples), problems


@cache
def examples() -> tuple[Example, ...]:
    """The bundled examples; errors are logged."""
    found, problems = load()
    for problem in problems:
        log.error("recorded examples: %s", problem)
    return found


def find(example_id: str) -> Example | None:
    """The example with that id."""
    return next((example for example in examples() if example.id == example_id), None)


def require(ids: Iterable[str]) -> None:
    """Reject ids without a bundled example, with one sentence.

    Raises:
        ValueError: names the first such id and the existing ones.
    """
    known = [example.id for example in examples()]
    if strange := [key for key in ids if key not in known]:
        raise ValueError(f"there is no recorded example “{strange[0]}”; there are {', '.join(known)}")


def build(recipe: Recipe, folder: Path = FOLDER) -> Example:
    """One example from its traces.

    Raises:
        ValueError: a trace is missing or fails its audit; also `TraceError` and `OSError`.
    """
    traces = []
    for name in recipe.files:
        path = folder / f"{name}.json"
        if not path.is_file():
            raise ValueError(f"{path.name} is missing; scripts/record_traces.py records it.")
        trace = Trace.from_json(path.read_bytes())
        if problems := trace.audit():
            raise ValueError(f"{path.name} fails its audit: {problems[0]}")
        traces.append(trace)
    lanes = tuple(summarize(traces, [label(lane) for lane in recipe.lanes()]))
    header = traces[-1].header
    return Example(
        id=recipe.id,
        kind=recipe.kind,
        title=recipe.title,
        look_for=recipe.look_for.format_map(facts(traces, lanes)),
        prompt=header.prompt,
        machine=header.machine,
        recorded=header.created,
        files=recipe.files,
        lanes=lanes,
        opens=opening(traces[-1]),
    )


def opening(trace: Trace) -> int | None:
    """The round, from 1, that best shows what a trace is about: the one with the most judged guesses.

    Of several the last, since most of the text and the speedup are visible then; None if nothing was guessed.
    """
    up = ("accepted", "rejected", "unreached")
    found = max(
        ((sum(verdict in up for verdict in row.nodes.verdict), row.index + 1) for row in trace.rounds),
        default=(0, 0),
    )
    return found[1] if found[0] else None


def sent(stats: Stats) -> int:
    """How many proposed tokens the target saw."""
    return stats.proposed - stats.pruned - stats.discarded


def facts(traces: list[Trace], lanes: tuple[Summary, ...]) -> dict[str, str]:
    """The values, of the last lane, that a sentence may name in braces."""
    from app.metrics.numbers import parting

    stats = traces[-1].stats
    longest = max((len(row.committed.token) for row in traces[-1].rounds), default=0)
    at = parting(traces[0], traces[-1])
    speedup = lanes[-1].speedup
    return {
        "tokens": f"{stats.tokens}",
        "passes": f"{stats.target_passes}",
        "sent": f"{sent(stats):,}",
        "judged": f"{stats.judged:,}",
        "accepted": f"{stats.accepted:,}",
        "rejected": f"{stats.rejected:,}",
        "wasted": f"{sent(stats) - stats.accepted:,}",
        "longest": f"{longest}",
        "speedup": f"{speedup:.2f}×" if speedup is not None else "unmeasured",
        "parting": f"diverge at token {at + 1}" if at is not None else "happen not to diverge here",
    }


FACTS = (
    "tokens",
    "passes",
    "sent",
    "judged",
    "accepted",
    "rejected",
    "wasted",
    "longest",
    "speedup",
    "parting",
)


def _check_words(text: str) -> None:
    for name in _named(text):
        if name not in FACTS:
            raise ValueError(f"look_for: there is no fact “{name}”; known are {', '.join(FACTS)}.")


def _named(text: str) -> Iterator[str]:
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is not None:
            yield name if not (form or conversion) else f"{name}:{form}"
