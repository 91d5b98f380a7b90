"""A form in which some program reports its guesses: how it is recognised, how it is read, what it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .acceptance import Acceptance

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """One form; `docs/trace.md` has a row for each.

    Attributes:
        name: the program and what of it is read.
        versions: those whose outputs or sources this was written after; in bold those that were run.
        rounds, guesses, accepted, positions, timeline: "yes", "no", or under which condition it is told.
        untold: what else is not in it.
        fits: whether a JSON object is of this form; None for text.
        read: the counts of one answer, given as its events in order; one for a whole answer.
        read_lines: the counts in lines of text, None if they have none of this form.

    `read` and `read_lines` raise TraceError with one sentence where counts contradict each other, and `read`
    NothingCounted where there are none.
    """

    name: str
    versions: str
    rounds: str
    guesses: str
    accepted: str
    positions: str
    timeline: str = "no"
    untold: str = ""
    fits: Callable[[Event], bool] | None = None
    read: Callable[[Sequence[Event]], Acceptance] | None = None
    read_lines: Callable[[list[str]], Acceptance | None] | None = None


def inside(answer: Any, *names: str) -> Event:
    """The object under these keys, one in the other; an empty one where there is none."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer if isinstance(answer, dict) else {}


def choices(answer: Event) -> list[Event]:
    """The choices of an answer of the OpenAI paths."""
    found = answer.get("choices")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
