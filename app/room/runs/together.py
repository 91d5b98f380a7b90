"""A run that a whole class follows round by round: what it has said, and which of it the pages show when.

The decoder runs without waiting for the class, so that nobody else waits for it. What it has said is kept on the
server: pages get one round a second, and a round that is voted on only once the vote is closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ROUND_S = 1.0  # between two rounds on the pages, so that a class can read them
VOTE_S = 20.0
ANSWERS = ("accepted", "rejected")


@dataclass(frozen=True, slots=True)
class ClassRun:
    """The class's run as the host has steered it.

    Attributes:
        run, ticket: its id, and what opens it in every process; the ticket is sent to no page.
        number: how many this room has had, with this one.
        began: when it was started, in seconds since 1970.
        shown: how many rounds the pages showed at the host's last step.
        pace: further ones follow by themselves; voting: the class votes on the next one.
    """

    run: str = ""
    ticket: str = ""
    number: int = 0
    prompt: str = ""
    model: str = ""
    began: float = 0.0
    shown: int = 0
    pace: bool = False
    voting: bool = False

    @property
    def part(self) -> str:
        """The name under which the votes on the next round are kept."""
        return part(self.number, self.shown)


@dataclass(frozen=True, slots=True)
class ClassRound:
    """One round: the pieces of text with their marks, what the draft guessed, and how that was judged.

    Attributes:
        first: the verdict on the first guess; None where there is none, or the run ended before it.
        accepted, judged: how many guesses the target accepted, of how many that it judged.
    """

    pieces: tuple[tuple[str, str], ...]
    guesses: tuple[str, ...]
    first: str | None
    accepted: int
    judged: int


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What the decoder has said of a run so far; `place` is its place in line, `lost` that its server ended."""

    rounds: tuple[ClassRound, ...] = ()
    place: int = 0
    over: bool = False
    lost: bool = False
    error: str = ""


NOTHING = RunProgress()


def part(number: int, at: int) -> str:
    """The name under which votes on a round are kept; both are counted from one in it."""
    return f"run {number} round {at + 1}"


def is_round(part: str) -> bool:
    """Whether that is the name of a round."""
    return part.startswith("run ")


def is_open(run: ClassRun, until: float | None, at: float) -> bool:
    """Whether the class may vote now."""
    return run.voting and until is not None and at < until


def shown(run: ClassRun, since: float, until: float | None, rounds: int, at: float) -> int:
    """How many rounds the pages show at this time."""
    if run.voting:
        return min(rounds, run.shown + (not is_open(run, until, at)))
    return min(rounds, run.shown + int((at - since) / ROUND_S)) if run.pace else run.shown


def next_s(run: ClassRun, since: float, until: float | None, said: RunProgress, at: float) -> float | None:
    """Seconds until the pages show something else by themselves; None if only a step of the host's changes them."""
    if is_open(run, until, at):
        return (until or at) - at
    if run.pace and not run.voting and shown(run, since, until, len(said.rounds), at) < len(said.rounds):
        return ROUND_S - (at - since) % ROUND_S
    return None


def read(messages: Iterable[str]) -> RunProgress:
    """A run's messages, as its event stream has them."""
    rounds: list[ClassRound] = []
    place, error, over = 0, "", False
    for message in messages:
        said = json.loads(message)
        if said["type"] == "step":
            rounds.append(_round(said))
        elif said["type"] == "queued":
            place = said["place"]
        elif said["type"] == "started":
            place = 0
        elif said["type"] == "error":
            error = said["message"]
        over = over or said["type"] in ("finished", "done")
    return RunProgress(tuple(rounds), place, over, False, error)


def _round(step: dict[str, Any]) -> ClassRound:
    verdicts = step["verdict"]
    rejected = [
        (text, "rejected")
        for text, verdict in zip(step["node_texts"], verdicts, strict=True)
        if verdict == "rejected"
    ]
    pieces: list[tuple[str, str]] = []
    for text, source in zip(step["texts"], step["sources"], strict=True):
        pieces += rejected if source == "corrected" else []
        pieces.append((text, source))
    first = verdicts[0] if verdicts else None
    return ClassRound(
        tuple(pieces),
        tuple(step["node_texts"]),
        first if first in ANSWERS else None,
        verdicts.count("accepted"),
        verdicts.count("accepted") + verdicts.count("rejected"),
    )


def rate(rounds: Sequence[ClassRound]) -> tuple[int, int]:
    """The draft's accepted and judged guesses in these rounds."""
    return sum(each.accepted for each in rounds), sum(each.judged for each in rounds)
