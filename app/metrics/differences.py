"""Where two lanes part: the first different token, and the places that only one lane guessed right.

Nothing here imports streamlit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdec_core.record.trace import Trace

from .numbers import parting

NO_GUESS = "□"  # none of the player's signs: its “–” is a pruned guess, its “·” one that was not reached
Outcome = Literal["accepted", "rejected", "not guessed"]


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the text at which two lanes fared differently.

    Attributes:
        position: of the token in the output, from 0.
        token: the committed token's text, which both lanes share.
        outcomes: the outcome of the first and the second lane's guess there.
        guesses: what each guessed; None if it had no guess there.
        rounds: each lane's round that committed the token, from 0.
        nodes: each lane's node there; None if nothing was guessed.
    """

    position: int
    token: str
    outcomes: tuple[Outcome, Outcome]
    guesses: tuple[str | None, str | None]
    rounds: tuple[int, int]
    nodes: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Differences:
    """All of them: `parts` is the first token that differs, None if one text is the beginning of the other."""

    parts: int | None
    shared: int
    spots: list[Spot]


@dataclass(frozen=True, slots=True)
class _Place:
    outcome: Outcome
    guess: str | None
    round: int
    node: int | None


def differences(first: Trace, second: Trace) -> Differences:
    """Compare two lanes up to the first different token."""
    parts = parting(first, second)
    shared = min(len(first.token_ids), len(second.token_ids)) if parts is None else parts
    spots = []
    for at, (one, other) in enumerate(zip(_places(first)[:shared], _places(second)[:shared], strict=False)):
        if one.outcome != other.outcome and "accepted" in (one.outcome, other.outcome):
            spots.append(
                Spot(
                    position=at,
                    token=first.output.texts[at],
                    outcomes=(one.outcome, other.outcome),
                    guesses=(one.guess, other.guess),
                    rounds=(one.round, other.round),
                    nodes=(one.node, other.node),
                )
            )
    return Differences(parts, shared, spots)


def _places(trace: Trace) -> list[_Place]:
    """The guess for each committed token: the accepted node, or the first one rejected there."""
    found = []
    for row in trace.rounds:
        nodes = row.nodes
        path = [node for node, verdict in enumerate(nodes.verdict) if verdict == "accepted"]
        for place in range(len(row.committed.token)):
            if place < len(path):
                node: int | None = path[place]
                outcome: Outcome = "accepted"
            else:
                above = path[place - 1] if place else -1
                node = next(
                    (
                        other
                        for other, verdict in enumerate(nodes.verdict)
                        if verdict == "rejected" and nodes.parent[other] == above
                    ),
                    None,
                )
                outcome = "not guessed" if node is None else "rejected"
            guess = None if node is None else trace.texts.get(str(nodes.token[node]), "")
            found.append(_Place(outcome, guess, row.index, node))
    return found
