"""From requests to numbers: acceptance by position, the time of a pass by its guesses, what that allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Any

from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace
from specdec_measure.sweep.totals import wilson

from .asking import Answered, Leg
from .client import WatchError

APART = 0.5  # guesses a pass by which two rows have to differ for a slope
OFTEN = 5  # rounds of a record with as many guesses, to be among those that the times are fitted to
SEED, DRAWS = 20_226, 400  # of the bootstrap


@dataclass(frozen=True, slots=True)
class PassLine:
    """Seconds of a pass with k guesses, a + b·k, each with its 95% interval (a bootstrap over requests)."""

    a: float
    b: float
    a_span: tuple[float, float]
    b_span: tuple[float, float]
    lengths: tuple[float, float]  # the fewest and the most guesses a pass that were seen


@dataclass(frozen=True, slots=True)
class Watched:
    """A server's speculation in numbers.

    Attributes:
        depth: the most guesses of a round.
        at: by position, accepted in how many of `rounds`, with the 95% interval of that share.
        tokens_per_pass: after the first token of an answer; `tokens_per_round`: in passes with guesses.
        step_s: mean seconds of a pass as they arrived here, `engine_step_s` as the engine counts them; `plain_step_s`
            of the server without guesses.
        tps, plain_tps: tokens a second of this server, and of the one without guesses.
        neutral: tokens a round of the same prompts, greedily and without penalties; its first position's interval.
        running, waiting: requests, on average.
    """

    url: str
    engine: str
    requests: int
    shared: int
    tokens: int
    rounds: int
    drafted: int
    accepted: int
    passes: int
    depth: int
    at: tuple[tuple[float, float, float], ...]
    tokens_per_pass: float | None
    tokens_per_round: float | None
    guesses_per_pass: float
    step_s: float | None
    engine_step_s: float | None
    line: PassLine | None
    tps: float | None
    plain_tps: float | None
    plain_step_s: float | None
    neutral: tuple[float, tuple[float, float]] | None
    running: float
    waiting: float

    @property
    def survival(self) -> list[float]:
        """How often each position was accepted, of all rounds."""
        return [share for share, _, _ in self.at]

    def pass_s(self, length: int) -> float | None:
        """Seconds of a pass with so many guesses; without any as measured, where a server without them was."""
        if self.line is None:
            return None
        return self.plain_step_s or self.line.a if length == 0 else self.line.a + self.line.b * length

    @property
    def cost(self) -> float | None:
        """What each of the present guesses adds to a pass, over the time of a pass without any."""
        plain, now = self.pass_s(0), self.pass_s(self.depth)
        return (now / plain - 1) / self.depth if plain and now and self.depth else None

    @property
    def speedup(self) -> float | None:
        """Against the server without guesses, measured; else modelled from the fitted times."""
        if self.tps and self.plain_tps:
            return self.tps / self.plain_tps
        cost, tokens = self.cost, self.tokens_per_pass
        return tokens / (1 + cost * self.guesses_per_pass) if cost is not None and tokens else None

    def speedup_at(self, length: int) -> float | None:
        """Modelled, with so many guesses in each round of those at hand; None of more than there ever were."""
        plain, then = self.pass_s(0), self.pass_s(length)
        if length > len(self.at) or not plain or not then:
            return None
        return (1 + sum(self.survival[:length])) * plain / then

    @property
    def best_length(self) -> int | None:
        """The draft length, up to the present one, with which the modelled speedup is greatest; 0: without guesses."""
        if self.cost is None:
            return None
        return max(range(self.depth + 1), key=lambda length: self.speedup_at(length) or 0.0)

    @property
    def ceiling(self) -> float | None:
        """The speedup of a drafter that is always right, at the present cost of a guess."""
        cost = self.cost
        return None if cost is None else (1 + self.depth) / (1 + cost * self.depth)


def fit(rows: Sequence[Answered]) -> PassLine | None:
    """a and b from requests: seconds = a·passes + b·guesses. None unless their guesses a pass differ.

    Of requests with guesses alone, if these differ among themselves: a round's fixed part is in a then.
    """
    rows = [row for row in rows if row.passes > 0 and row.seconds > 0]
    some = [row for row in rows if row.drafted]
    if some and _apart(some):
        rows = some
    if not rows or not _apart(rows):
        return None
    ratios = [row.drafted / row.passes for row in rows]
    a, b = _solve(rows)
    random, drawn = Random(SEED), []
    for _ in range(DRAWS):
        some = random.choices(rows, k=len(rows))
        if _apart(some):
            drawn.append(_solve(some))
    spans = [_middle([one[at] for one in drawn], (a, b)[at]) for at in (0, 1)]
    return PassLine(a, b, spans[0], spans[1], (min(ratios), max(ratios)))


def _apart(rows: Sequence[Answered]) -> bool:
    ratios = [row.drafted / row.passes for row in rows]
    return max(ratios) - min(ratios) >= APART


def _solve(rows: Sequence[Answered]) -> tuple[float, float]:
    """Least squares of the seconds of a pass, each request weighted by its passes."""
    weight = sum(row.passes for row in rows)
    mean_k = sum(row.drafted for row in rows) / weight
    mean_t = sum(row.seconds for row in rows) / weight
    over = sum(
        row.passes * (row.drafted / row.passes - mean_k) * (row.seconds / row.passes - mean_t) for row in rows
    )
    under = sum(row.passes * (row.drafted / row.passes - mean_k) ** 2 for row in rows)
    b = max(0.0, over / under)
    return mean_t - b * mean_k, b


def _middle(values: list[float], otherwise: float) -> tuple[float, float]:
    if not values:
        return otherwise, otherwise
    values.sort()
    return values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]


def watched(main: Leg, others: Sequence[Leg] = (), neutral: Leg | None = None) -> Watched:
    """The numbers of a server, beside those of others with the same model, and of its own without penalties."""
    total = _total(main.rows)
    everything = [row for leg in (main, neutral, *others) if leg is not None for row in leg.rows]
    plain = [row for leg in others if not any(row.drafted for row in leg.rows) for row in leg.rows]
    at = total.at
    loads = main.loads or [(0.0, 0.0)]
    return Watched(
        url=main.url, engine=main.engine, requests=len(main.rows), shared=main.shared, tokens=total.tokens,
        rounds=total.rounds, drafted=total.drafted, accepted=total.accepted, passes=total.passes,
        depth=len(at) or (-(-total.drafted // total.rounds) if total.rounds else 0),
        at=tuple((count / total.rounds, *wilson(count, total.rounds)) for count in at) if total.rounds else (),
        tokens_per_pass=1 + total.accepted / total.passes if total.passes else None,
        tokens_per_round=1 + total.accepted / total.rounds if total.rounds else None,
        guesses_per_pass=total.drafted / total.passes if total.passes else 0.0,
        step_s=_step(main.rows),
        engine_step_s=total.engine_s / total.passes if total.engine_s and total.passes else None,
        line=fit(everything), tps=_speed(main.rows), plain_tps=_speed(plain), plain_step_s=_step(plain),
        neutral=_neutral(neutral),
        running=fmean(one for one, _ in loads), waiting=fmean(one for _, one in loads),
    )  # fmt: skip


def of_records(traces: Sequence[Trace]) -> Watched:
    """The same numbers from the records of another program's lanes; a pass's time is a whole round's.

    Raises:
        WatchError: one sentence, if they have no times, no guesses, or trees of guesses.
    """
    legs, rounds = list[Leg](), list[Answered]()
    for trace in traces:
        counted = [row for row in trace.rounds if not row.note.get("reads_prompt")]
        counted = [row for row in counted if "cut" not in row.nodes.verdict]
        if any(row.nodes.parent != list(range(-1, len(row.nodes.parent) - 1)) for row in counted):
            raise WatchError("The record has trees of guesses, of which no time by their number is fitted.")
        if any("unknown" in row.committed.source for row in counted):
            raise WatchError(
                "The record does not tell which guesses were rejected, so other draft lengths are unknown."
            )
        each = [_of_round(row) for row in counted]
        machine = trace.header.machine
        leg = Leg(
            machine.partition(" at ")[2] or machine,
            next(iter(trace.header.packages), "another program"),
            "recorded",
        )
        total = _total(each)
        leg.rows = (
            [replace(total, tokens=total.tokens + 1)] if total.seconds > 0 else []
        )  # and the token before
        legs.append(leg)
        rounds += each if leg.rows else []
    legs.sort(key=lambda leg: not any(row.drafted for row in leg.rows))
    if not any(row.drafted for row in rounds):
        raise WatchError(
            "The record has no rounds with guesses and times, so nothing follows for other draft lengths."
        )
    often = Counter(row.drafted for row in rounds)
    line = fit([row for row in rounds if often[row.drafted] >= OFTEN])
    return replace(watched(legs[0], legs[1:]), line=line)


def _of_round(row: Round) -> Answered:
    guessed, accepted = row.nodes_read, row.nodes.verdict.count("accepted")
    at = tuple(int(place < accepted) for place in range(guessed))
    seconds = row.end_s - row.start_s
    return Answered(len(row.committed.token), seconds, int(guessed > 0), guessed, accepted, 1, at)


def _speed(rows: Sequence[Answered]) -> float | None:
    """Tokens a second after each answer's first."""
    seconds = sum(row.seconds for row in rows)
    return sum(row.tokens - 1 for row in rows) / seconds if seconds > 0 else None


def _step(rows: Sequence[Answered]) -> float | None:
    """Mean seconds of a pass."""
    seconds, passes = sum(row.seconds for row in rows), sum(row.passes for row in rows)
    return seconds / passes if seconds > 0 and passes else None


def _total(rows: Sequence[Answered]) -> Answered:
    depth = max((len(row.at) for row in rows), default=0)
    engine = [row.engine_s for row in rows if row.engine_s is not None]
    return Answered(
        sum(row.tokens for row in rows), sum(row.seconds for row in rows), sum(row.rounds for row in rows),
        sum(row.drafted for row in rows), sum(row.accepted for row in rows), sum(row.passes for row in rows),
        tuple(sum(row.at[place] for row in rows if place < len(row.at)) for place in range(depth)),
        sum(engine) if engine and len(engine) == len(rows) else None,
    )  # fmt: skip


def _neutral(leg: Leg | None) -> tuple[float, tuple[float, float]] | None:
    if leg is None:
        return None
    total = _total(leg.rows)
    if not total.rounds:
        return None
    return 1 + total.accepted / total.rounds, wilson(total.at[0] if total.at else 0, total.rounds)


def content(found: Watched) -> dict[str, Any]:
    """The numbers as JSON has them."""
    from dataclasses import asdict

    derived = {
        "cost": found.cost,
        "speedup": found.speedup,
        "ceiling": found.ceiling,
        "best_length": found.best_length,
    }
    return asdict(found) | derived
