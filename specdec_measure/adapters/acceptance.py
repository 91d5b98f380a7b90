"""What an engine's counters say about its guesses: sums over many rounds, which are no record of any of them.

Only what was counted is here. A number that would need a guess (about the drafts' lengths, or about which round a
number belongs to) is None, and is printed as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from math import ceil, floor, isfinite
from typing import Any

from specdec_core.foundations.errors import TraceError

FORMAT = "specdec-acceptance"
MAX_COUNT = 10**12  # of anything counted
MAX_EXACT_ROUNDS = 999  # rounds: of more, neighbouring counts have the same share in three places


class NothingCounted(TraceError):
    """A file of a known form that has no counts of guesses.

    Attributes:
        none: what the answer means beside others of the same engine that do have counts: no guesses were made. None
            where it means that they are unknown.
    """

    def __init__(self, sentence: str, none: Acceptance | None = None) -> None:
        super().__init__(sentence)
        self.none = none


@dataclass(frozen=True, slots=True)
class Stated:
    """A ratio that the engine printed without the counts behind it, once or several times."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Counters of one process or engine on a page of metrics.

    Attributes:
        labels: name and value of each label but the position.
        counts: by name, the least and the most that the printed number can mean.
        at: the same for the accepted guesses by position.
        created: when the counters began, in seconds since 1970, where the page says so.
    """

    labels: tuple[tuple[str, str], ...]
    counts: Mapping[str, tuple[int, int]]
    at: Mapping[int, tuple[int, int]]
    created: float | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Counted guesses. Positions count from the first guess of a round.

    Attributes:
        rounds: passes that checked guesses.
        at: the accepted guesses by position.
        reached: those that were judged by position, which is known only where the length of every draft is.
        tokens: how many were written; `passes`: of the target, with and without guesses.
        series: the counters of a page of metrics one by one.
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
    tokens: int | None = None
    passes: int | None = None
    series: tuple[Series, ...] = field(default=(), repr=False)

    @property
    def per_round(self) -> float | None:
        """Tokens per round with guesses: the accepted ones and one of the target's own."""
        if not self.rounds or self.accepted is None:
            return None
        return 1 + self.accepted / self.rounds

    @property
    def per_pass(self) -> float | None:
        """Tokens per pass of the target, with and without guesses."""
        return self.tokens / self.passes if self.passes and self.tokens is not None else None

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
        known = {name: value for name, value in asdict(self).items() if name != "series"}
        derived = {
            "tokens_per_round": self.per_round, "tokens_per_pass": self.per_pass,
            "accepted_of_drafted": self.of_drafted, "acceptance_rate": self.rate,
        }  # fmt: skip
        return {"format": FORMAT, "version": 1, **known, **derived}


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
    tokens: int | None = None,
    passes: int | None = None,
    stated: Sequence[Stated] = (),
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
        raise TraceError(f"{where}: {accepted:,} guesses accepted, but {sum(at):,} by position.")
    if at and (list(at) != sorted(at, reverse=True) or (rounds is not None and at[0] > rounds)):
        raise TraceError(f"{where}: a position was accepted more often than the one before it.")
    if rounds == 0 and (drafted or accepted):
        raise TraceError(f"{where}: no rounds with guesses, but {drafted or accepted:,} guesses.")
    full = bool(chain and at and rounds and drafted == rounds * len(at))
    return Acceptance(
        engine, source, rounds, drafted, accepted, tuple(at), (rounds or 0, *at[:-1]) if full else (),
        tuple(one for one in stated if one.values), tuple(remarks), tokens, passes,
    )  # fmt: skip


def of_rounds(guessed: Sequence[int], kept: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Accepted and judged guesses by position, of rounds that guessed and kept so many each."""
    depth = max(guessed, default=0)
    judged = [min(other, one + 1) for other, one in zip(guessed, kept, strict=True)]
    return _beyond(kept, depth), _beyond(judged, depth)


def _beyond(lengths: Sequence[int], depth: int) -> tuple[int, ...]:
    """How many of the lengths are above 0, 1, 2… up to `depth`."""
    each = [0] * (depth + 1)
    for one in lengths:
        each[min(one, depth)] += 1
    return tuple(by_position(each))


def of_rates(
    accepted: int, drafted: int, mean: float, rates: Sequence[float]
) -> tuple[int, list[int]] | None:
    """Rounds and counts by position from a line that rounds its ratios: `mean` to two places, `rates` to three.

    None unless exactly one number of rounds fits everything that the line says.
    """
    half = 0.005 + 1e-9
    if not accepted or mean - 1 <= half:
        return None
    least = max(ceil(accepted / (mean - 1 + half)), ceil(drafted / len(rates)) if rates else 1)
    most = min(floor(accepted / (mean - 1 - half)), drafted)
    if not rates:
        return (least, []) if least == most else None
    if most > MAX_EXACT_ROUNDS:
        return None
    found = [(rounds, at) for rounds in range(least, most + 1) if (at := of_shares(rates, rounds, 0.0005))]
    fitting = [(rounds, at) for rounds, at in found if sum(at) == accepted]
    return fitting[0] if len(fitting) == 1 else None


def of_shares(rates: Sequence[float], rounds: int, half: float) -> list[int] | None:
    """The counts whose shares of `rounds` are these `rates`, each right to `half`; None if there are none."""
    if not all(map(isfinite, rates)):
        return None
    at = [round(rate * rounds) for rate in rates]
    close = all(
        abs(one / rounds - rate) <= half + 1e-9 for one, rate in zip(at, rates, strict=True) if rounds
    )
    return at if close else None


def by_position(histogram: Sequence[int]) -> list[int]:
    """How often each position was accepted, from how many rounds accepted exactly 0, 1, 2… guesses."""
    return list(accumulate(reversed(histogram)))[-2::-1]


def together(each: Sequence[Acceptance], source: str, remarks: Sequence[str] = ()) -> Acceptance:
    """The sum of some counts of one engine; what one of them does not tell is unknown in the sum."""
    if len(each) == 1 and not remarks:
        return each[0]
    stated: dict[str, tuple[float, ...]] = {}
    for one in each:
        for ratio in one.stated:
            stated[ratio.name] = stated.get(ratio.name, ()) + ratio.values
    return Acceptance(
        each[0].engine, source, total([one.rounds for one in each]), total([one.drafted for one in each]),
        total([one.accepted for one in each]),
        columns([one.at for one in each if one.accepted != 0]),
        columns([one.reached for one in each if one.drafted != 0]),
        tuple(Stated(name, values) for name, values in stated.items()),
        tuple(dict.fromkeys([*(remark for one in each for remark in one.remarks), *remarks])),
        total([one.tokens for one in each]), total([one.passes for one in each]),
    )  # fmt: skip


def total(counts: Sequence[int | None]) -> int | None:
    """Their sum; None if one of them is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def columns(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Sums by position; empty if one of them is unknown."""
    if not rows or not all(rows):
        return ()
    return tuple(sum(row[at] for row in rows if at < len(row)) for at in range(max(map(len, rows))))


def number(value: Any, name: str) -> int:
    """A count as the file has it.

    Raises:
        TraceError: one sentence, if it is none.
    """
    if isinstance(value, int | float) and -MAX_COUNT <= value < 0:
        raise TraceError(f"'{name}' is negative, {value:g}; a count is a whole number from 0.")
    whole = not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= MAX_COUNT
    if not whole or value != int(value):
        raise TraceError(f"'{name}' has to be a whole number from 0, got {str(value)[:40]!r}.")
    return int(value)


def digits(text: str, name: str) -> int:
    """A count that a line of text has, of however many digits.

    Raises:
        TraceError: one sentence, if it is negative or too large.
    """
    return number(int(text) if len(text) < 20 else float(text), name)


def ratio(value: float, name: str) -> float:
    """A ratio as the file has it.

    Raises:
        TraceError: one sentence, if it is negative or no number.
    """
    if not abs(value) <= MAX_COUNT:  # of a NaN too
        raise TraceError(f"'{name}' has to be a number from 0, got {str(value)[:40]}.")
    if value < 0:
        raise TraceError(f"'{name}' is negative, {value:g}.")
    return float(value)


def count(said: Mapping[str, Any], name: str) -> int | None:
    """A count of an object; None if it has none of this name."""
    return None if said.get(name) is None else number(said[name], name)


def numbers(said: Mapping[str, Any], name: str) -> list[int]:
    """A list of counts; empty if the object has none of this name.

    Raises:
        TraceError: one sentence, if it is something else.
    """
    values = said.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise TraceError(f"'{name}' has to be a list of whole numbers.")
    return [number(value, f"{name}[{at}]") for at, value in enumerate(values)]
