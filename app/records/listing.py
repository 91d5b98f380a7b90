"""Finding runs: applying a search, a filter and an order to a list, and their form in an address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.lanes.fields import Field, NameField, NumberField, TextField
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES

from .summary import Summary

ANY = "any"
ORDERS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "tokens-per-pass": "Most tokens per pass",
    "speedup": "Highest measured speedup",
    "name": "By name",
}
MOST_SHOWN = 6  # lanes side by side


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A run as the page lists it, kept or bundled: `key` is its name in the address."""

    key: str
    title: str
    prompt: str
    created: float
    lanes: tuple[Summary, ...]
    source: Any = None  # the Saved or Example it represents

    @property
    def guessing(self) -> tuple[Summary, ...]:
        """The lanes with a proposer: all but the baseline, or the baseline if it is alone."""
        return tuple(lane for lane in self.lanes if not lane.plain) or self.lanes


def proposer_titles() -> dict[str, str]:
    """The filter's choices."""
    return {ANY: "Any proposer", **{name: kind.title for name, kind in PROPOSERS.items()}}


def find(entries: Iterable[LibraryEntry], words: str, proposer: str, order: str) -> list[LibraryEntry]:
    """The entries that contain all `words` and have this proposer in a lane, in this order."""
    wanted = words.casefold().split()
    found = [
        entry
        for entry in entries
        if proposer in (ANY, *(lane.proposer for lane in entry.guessing))
        and all(word in text for text in [_text(entry)] for word in wanted)
    ]
    keys: dict[str, Callable[[LibraryEntry], Any]] = {
        "newest": lambda entry: -entry.created,
        "oldest": lambda entry: entry.created,
        "tokens-per-pass": lambda entry: -best(entry, "tokens_per_pass"),
        "speedup": lambda entry: -best(entry, "speedup"),
        "name": lambda entry: entry.title.casefold(),
    }
    return sorted(found, key=keys[order])


def best(entry: LibraryEntry, figure: str) -> float:
    """The highest value of a figure in an entry's lanes; 0 if no lane has one.

    An oracle or a person is never ranked: their guesses come from no proposer that could be chosen.
    """
    lanes = [lane for lane in entry.guessing if not _is_off_the_clock(lane)]
    return max((getattr(lane, figure) or 0.0 for lane in lanes), default=0.0)


def _is_off_the_clock(lane: Summary) -> bool:
    kind = PROPOSERS.get(lane.proposer)
    return kind is not None and kind.off_the_clock


def _text(entry: LibraryEntry) -> str:
    parts = [entry.title, entry.prompt]
    for lane in entry.lanes:
        kind, rule = PROPOSERS.get(lane.proposer), RULES.get(lane.rule)
        parts += [lane.label, lane.proposer, lane.rule, lane.target, lane.draft or ""]
        parts += [kind.title if kind else "", rule.title if rule else ""]
    return "\n".join(parts).casefold()


def together(entries: Sequence[LibraryEntry]) -> str | None:
    """Why these cannot be shown side by side, in a sentence; None if they can."""
    if len({entry.prompt for entry in entries}) > 1:
        first, other = entries[0], next(entry for entry in entries if entry.prompt != entries[0].prompt)
        return (
            f"“{first.title}” and “{other.title}” continue different prompts, so their tokens cannot be "
            "compared position by position. Pick runs of one prompt."
        )
    alone = next((entry for entry in entries if entry.guessing[0].plain), None)
    if alone and len(entries) > 1:
        return (
            f"“{alone.title}” is plain decoding alone, and its times cannot be compared with another run's. Pick "
            "runs with a proposer, or race both in the Lab."
        )
    lanes = len(side_by_side(entries))
    if lanes > MOST_SHOWN:
        return f"Together these have {lanes} lanes; up to {MOST_SHOWN} fit side by side. Pick fewer runs."
    return None


def side_by_side(entries: Sequence[LibraryEntry]) -> list[tuple[LibraryEntry, int]]:
    """The lanes to draw, as entry and number: all of one run; of several, those with guesses.

    A baseline applies to its own run only. With lanes of another run it would give a speedup that was never measured.
    """
    lanes = [(entry, number) for entry in entries for number in range(len(entry.lanes))]
    return [(entry, number) for entry, number in lanes if len(entries) == 1 or not entry.lanes[number].plain]


# the page's settings in its address
TABLE: tuple[Field, ...] = (
    TextField("q", most=100, too_long="The link's search is longer than 100 characters and is left out."),
    NameField("who", "proposer", titles=proposer_titles),
    NameField("sort", "order", titles=lambda: ORDERS),
    NumberField("sheet", "The page of your runs", 1, 100_000, 1),
)
