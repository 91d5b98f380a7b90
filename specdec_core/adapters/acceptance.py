"""What an engine's counters say about its guesses: sums over many rounds, which are no record of any of them.

Only what was counted is here. A number that would need a guess (about the drafts' lengths, or about which round a
number belongs to) is None, and is printed as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, floor
from typing import Any

from specdec_core.errors import TraceError

FORMAT = "specdec-acceptance"
MOST = 10**12  # of anything counted


@dataclass(frozen=True, slots=True)
class Stated:
    """A ratio that the engine printed without the counts behind it, once or several times."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Counted guesses. Positions count from the first guess of a round.

    `rounds` are passes that checked guesses. `at` are the accepted guesses by position, `reached` those that were
    judged, which is known only where the length of every draft is.
    """

    engine: str
    source: str
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    at: tuple[int, ...] = ()
    reached: tuple[int, ...] = ()
    stated: tuple[Stated, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    @property
    def per_round(self) -> float | None:
        """Tokens per round with guesses: the accepted ones and one of the target's own."""
        if not self.rounds or self.accepted is None:
            return None
        return 1 + self.accepted / self.rounds

    @property
    def of_drafted(self) -> float | None:
        """Accepted of all guesses; those after a rejection were never judged and count as not accepted."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None

    @property
    def rate(self) -> float | None:
        """The acceptance rate α: accepted of those that were judged."""
        judged = sum(self.reached)
        return self.accepted / judged if judged and self.accepted is not None else None

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        derived = {"tokens_per_round": self.per_round, "accepted_of_drafted": self.of_drafted}
        return {"format": FORMAT, "version": 1, **asdict(self), **derived, "acceptance_rate": self.rate}


def counted(
    engine: str,
    source: str,
    *,
    rounds: int | None,
    drafted: int | None,
    accepted: int | None,
    at: Sequence[int] = (),
    chain: bool = True,
    remarks: Sequence[str] = (),
) -> Acceptance:
    """Counters that agree with each other.

    Args:
        chain: whether a round's guesses are one chain, so that full drafts show which guesses were judged.

    Raises:
        TraceError: one sentence, if they contradict each other.
    """
    where = f"{engine}'s counts contradict each other"
    if drafted is not None and accepted is not None and accepted > drafted:
        raise TraceError(f"{where}: {accepted:,} of {drafted:,} guesses accepted.")
    if at and accepted is not None and sum(at) != accepted:
        raise TraceError(
            f"{where}: {accepted:,} guesses accepted, but {sum(at):,} by position. The file may be cut off."
        )
    if at and (list(at) != sorted(at, reverse=True) or (rounds is not None and at[0] > rounds)):
        raise TraceError(f"{where}: a position was accepted more often than the one before it.")
    full = bool(chain and at and rounds and drafted == rounds * len(at))
    return Acceptance(
        engine, source, rounds, drafted, accepted, tuple(at),
        (rounds or 0, *at[:-1]) if full else (), remarks=tuple(remarks),
    )  # fmt: skip


def of_rates(
    accepted: int, drafted: int, mean: float, rates: Sequence[float]
) -> tuple[int, list[int]] | None:
    """Rounds and counts by position from a line that rounds its ratios: `mean` to two places, `rates` to three.

    None unless exactly one number of rounds fits everything that the line says.
    """
    half = 0.005 + 1e-9
    if mean - 1 <= half or not rates:
        return None
    found = []
    for rounds in range(ceil(accepted / (mean - 1 + half)), floor(accepted / (mean - 1 - half)) + 1):
        at = [round(rate * rounds) for rate in rates]
        close = all(
            abs(count / rounds - rate) <= 0.0005 + 1e-9 for count, rate in zip(at, rates, strict=True)
        )
        if close and sum(at) == accepted and rounds <= drafted <= rounds * len(rates):
            found.append((rounds, at))
    return found[0] if len(found) == 1 else None


def by_position(histogram: Sequence[int]) -> list[int]:
    """How often each position was accepted, from how many rounds accepted exactly 0, 1, 2… guesses."""
    return [sum(histogram[position:]) for position in range(1, len(histogram))]


def number(value: Any, name: str) -> int:
    """A count as the file has it.

    Raises:
        TraceError: one sentence, if it is none.
    """
    if isinstance(value, int | float) and value < 0:
        raise TraceError(f"'{name}' is negative, {value:g}; a count is a whole number from 0.")
    whole = not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= MOST
    if not whole or value != int(value):
        raise TraceError(f"'{name}' has to be a whole number from 0, got {str(value)[:40]!r}.")
    return int(value)
