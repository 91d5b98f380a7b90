"""Which lane to choose, and with what confidence: lanes compared pair by pair on the same prompts or repeats.

Every case (a prompt, or a repeat on one prompt) gives one ratio of two lanes' speeds. Their geometric mean is the
estimate, a bootstrap over cases its 95% interval, and an exact sign test guards against too few cases: a difference
is called clear only where the interval excludes 1 and the test's p-value is at most 5%, which takes at least six
cases. Pairs are judged separately; with many lanes one in twenty may look clear by luck.
Repeats of one prompt differ only in timing, so their interval is narrow and holds for that prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import proposer_class
from specdec_core.rules import rule_class
from specdec_core.settings import Settings
from specdec_measure.records.repeats import LOOP, percent
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.totals import MIN_TOKENS, beyond

LEVEL = 0.05
WORDS = ("no", "one", "two", "three", "four", "five", "six")
MIN_CASES = 6  # with five cases, five equal outcomes happen by luck one time in sixteen
RESAMPLES = 4_000
SEED = 20_221  # of the bootstrap: the same rows give the same interval

Unit = Literal["prompt", "repeat"]


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Lane `first` against lane `second`.

    Attributes:
        cases: how many ratios there are; `wins` of them say that the first was faster.
        ratio: geometric mean of speed(first) / speed(second); `low` and `high` are its 95% interval.
        chance: two-sided p-value of so uneven a count of wins if neither lane is faster.
    """

    first: int
    second: int
    cases: int
    wins: int
    ratio: float
    low: float
    high: float
    chance: float

    @property
    def clear(self) -> bool:
        """Whether the difference is more than luck."""
        return self.chance <= LEVEL and not self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True)
class Advice:
    """What the measurements say.

    Attributes:
        best: the lane with the highest speed, however uncertain.
        unit: what a case is; repeats of one prompt say nothing about others.
        pairs: `best` against every other lane, in the lanes' order.
        answer: whether one lane is clearly the fastest, in a sentence or two.
        lines: each pair's figures, and what they say.
        notes: how to read them, and what they leave out; repeated text among it, which flatters all proposers.
    """

    best: int
    unit: Unit
    pairs: list[ComparedPair]
    answer: str
    lines: list[str]
    notes: str

    @property
    def text(self) -> str:
        """All of it: the answer, a line per pair, the notes."""
        return "\n".join([self.answer, *(f"- {line}" for line in self.lines), self.notes]).rstrip()

    @property
    def clear(self) -> bool:
        """Whether the best is clearly faster than every other."""
        return bool(self.pairs) and all(pair.clear for pair in self.pairs)


def compare(first: Sequence[float], second: Sequence[float], names: tuple[int, int] = (0, 1)) -> ComparedPair:
    """Two lanes' speeds, paired case by case.

    Raises:
        SettingsError: if they do not pair up, there are none, or one is not above 0.
    """
    if len(first) != len(second) or not first:
        raise SettingsError(
            f"Two lanes need the same cases, at least one; got {len(first)} and {len(second)}."
        )
    if not all(math.isfinite(speed) and speed > 0 for speed in (*first, *second)):
        raise SettingsError("Speeds have to be numbers above 0.")
    logs = np.log(np.asarray(first, dtype=float)) - np.log(np.asarray(second, dtype=float))
    cases = len(logs)
    picks = np.random.default_rng(SEED).integers(0, cases, size=(RESAMPLES, cases))
    low, high = np.quantile(logs[picks].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
    wins = int((logs > 0).sum())
    return ComparedPair(
        *names,
        cases=cases,
        wins=wins,
        ratio=math.exp(float(logs.mean())),
        low=math.exp(float(low)),
        high=math.exp(float(high)),
        chance=sign_test(wins, int((logs < 0).sum())),
    )


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact p-value that a fair coin falls at least as unevenly; ties are left out beforehand."""
    tosses = wins + losses
    tail = sum(math.comb(tosses, count) for count in range(min(wins, losses) + 1))
    return min(1.0, 2.0 * tail / float(2**tosses))


def advise(
    rows: Iterable[MeasuredCase], labels: Sequence[str], leave_out: Iterable[int] = ()
) -> Advice | None:
    """Advice from the cells of a sweep or of repeats on one prompt.

    Args:
        rows: cells; with several prompts, each prompt is a case (its median over repeats); with one, each repeat is.
        labels: what the lanes are called, by number.
        leave_out: lanes not to recommend, such as one whose drafting is off the clock.

    Returns None where fewer than two lanes were measured on a common case.
    """
    rows, out = list(rows), set(leave_out)
    speeds, unit = _speeds(rows, out)
    lanes = sorted(speeds)
    common = [case for case in next(iter(speeds.values()), {}) if all(case in speeds[lane] for lane in lanes)]
    if len(lanes) < 2 or not common:
        return None
    columns = {lane: [speeds[lane][case] for case in common] for lane in lanes}
    best = max(lanes, key=lambda lane: math.fsum(map(math.log, columns[lane])))
    pairs = [compare(columns[best], columns[lane], (best, lane)) for lane in lanes if lane != best]
    eligible = [row for row in rows if row.lane not in out]
    notes = (
        _reading(pairs, unit),
        _left_out(eligible, len(common), unit),
        disturbed(_raced(_usable(rows, out))),
        _repeats(_usable(rows, out), unit),
    )
    return Advice(
        best,
        unit,
        pairs,
        _answer(best, pairs, unit, labels),
        [_line(pair, unit, labels) for pair in pairs],
        "".join(notes).strip(),
    )


def ineligible(lanes: Sequence[Settings]) -> list[int]:
    """The numbers of lanes that are never recommended: under a lossy rule, or with drafting off the clock."""
    return [
        number
        for number, lane in enumerate(lanes)
        if lane.proposer != "none"
        and (not rule_class(lane.rule).lossless or proposer_class(lane.proposer).off_the_clock)
    ]


def _speeds(
    rows: Sequence[MeasuredCase], left_out: set[int]
) -> tuple[dict[int, dict[tuple[str, str, int], float]], Unit]:
    """Tokens per second by lane and case."""
    found: dict[tuple[int, tuple[str, str, int]], list[float]] = {}
    # several prompts, even if the texts of all but one are too short
    several = len({(row.family, row.name) for row in rows}) > 1
    for row in _usable(rows, left_out):
        if row.seconds > 0:
            case = (row.family, row.name, 0 if several else row.repeat)
            found.setdefault((row.lane, case), []).append(row.tokens / row.seconds)
    speeds: dict[int, dict[tuple[str, str, int], float]] = {}
    for (lane, case), values in found.items():
        speeds.setdefault(lane, {})[case] = float(np.median(values))
    return speeds, "prompt" if several else "repeat"


def _usable(rows: Iterable[MeasuredCase], left_out: set[int]) -> list[MeasuredCase]:
    return [
        row for row in rows if row.lane not in left_out and row.error is None and row.tokens >= MIN_TOKENS
    ]


def _left_out(rows: Iterable[MeasuredCase], compared: int, unit: Unit) -> str:
    """A trailing sentence about the prompts or repeats that are no case; empty where all are."""
    cases = {(row.family, row.name) if unit == "prompt" else row.turn for row in rows}
    missing = len(cases) - compared
    if not missing:
        return ""
    verb = "is" if missing == 1 else "are"
    return (
        f" {missing} of {len(cases)} {unit}s {verb} left out: a lane wrote fewer than {MIN_TOKENS} tokens there, "
        "failed or was not measured."
    )


def _raced(rows: Iterable[MeasuredCase]) -> list[tuple[float, float | None]]:
    """The speedup over plain decoding in the same turn and the tokens per pass, of every other lane's run."""
    turns: dict[tuple[str, str, int], dict[int, MeasuredCase]] = {}
    for row in rows:
        if row.seconds > 0:
            turns.setdefault(row.turn, {})[row.lane] = row
    return [
        (row.tokens / row.seconds / (turn[0].tokens / turn[0].seconds), row.tokens_per_pass)
        for turn in turns.values()
        if 0 in turn
        for row in turn.values()
        if row.lane
    ]


def disturbed(raced: Sequence[tuple[float, float | None]]) -> str:
    """A trailing sentence about times that cannot be right; empty where none is known.

    Args:
        raced: speedups over plain decoding, each with its tokens per pass.
    """
    wrong = sum(beyond(speedup, most) for speedup, most in raced)
    if not wrong:
        return ""
    return (
        f" In {wrong} of {len(raced)} races against plain decoding the speedup exceeds the tokens per pass, which "
        "guessing cannot reach: the machine was disturbed, and these figures are rougher than their intervals say."
    )


def _repeats(rows: Iterable[MeasuredCase], unit: Unit) -> str:
    """A trailing sentence about repeated text; empty where nothing repeats."""
    shares: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.repeated is not None:
            case = (row.family, row.name)
            shares[case] = max(shares.get(case, 0.0), row.repeated)
    flatters = "which can flatter a proposer"
    if unit == "repeat":
        share = max(shares.values(), default=0.0)
        return f" {percent(share)} of the text repeats, {flatters}." if share else ""
    looping = sum(share >= LOOP for share in shares.values())
    loop = "loops" if looping == 1 else "loop"
    return f" {looping} of {len(shares)} texts {loop}, {flatters}." if looping else ""


def _answer(best: int, pairs: Sequence[ComparedPair], unit: Unit, labels: Sequence[str]) -> str:
    if pairs[0].cases < MIN_CASES:
        few = too_few(pairs[0].cases, unit, "to tell")
        return f"{few[0].upper()}{few[1:]}. So far {labels[best]} was the fastest."
    beaten = _joined([labels[pair.second] for pair in pairs if pair.clear])
    level = [best, *(pair.second for pair in pairs if not pair.clear)]
    if len(level) == 1:
        return f"{labels[best]} is clearly faster than {beaten}."
    between = "between" if len(level) == 2 else "among"
    also = f", and clearly faster than {beaten}" if beaten else ""
    lanes = _joined([labels[lane] for lane in sorted(level)])
    return f"No clear winner {between} {lanes}; {labels[best]} was the fastest on average{also}."


def _line(pair: ComparedPair, unit: Unit, labels: Sequence[str]) -> str:
    said = f"{labels[pair.first]} against {labels[pair.second]}: {pair.ratio:.2f}×"
    if pair.cases > 1:  # one has no interval
        said += f" (95% interval {pair.low:.2f} to {pair.high:.2f})"
    said += f", faster {share(pair.wins, pair.cases, unit)}"
    if pair.cases < MIN_CASES:
        return f"{said}."
    return f"{said}; {'clear' if pair.clear else f'not clear, as {doubt(pair)}'}."


def doubt(pair: ComparedPair) -> str:
    """Why a pair is not clear although there are enough cases, without a full stop."""
    if pair.chance <= LEVEL:
        return "the interval contains 1"
    if pair.chance == 1.0:
        return "it lost about as many as it won"
    return f"two equal lanes would be this one-sided in {100 * pair.chance:.0f} of 100 tries"


def _reading(pairs: Sequence[ComparedPair], unit: Unit) -> str:
    """How the lines are read, each sentence after a space."""
    said = ""
    if any(pair.low > 1.0 and not pair.clear for pair in pairs) and pairs[0].cases >= MIN_CASES:
        said += (
            f" An interval above 1 is not enough for “clear”, since one from a few {unit}s tends to be too narrow: the "
            f"count of {unit}s won also has to be one that two equal lanes reach in at most {100 * LEVEL:.0f} of 100 "
            "tries (a sign test)."
        )
    if pairs[0].cases > 1:
        said += f" The ratios are geometric means over the {unit}s."
    if unit == "repeat":
        said += (
            " This is one prompt, repeated with the same seed: the interval says how steady the clock is, and nothing "
            "about other prompts or, above temperature 0, other draws."
        )
    return said


def too_few(cases: int, unit: Unit, purpose: str) -> str:
    """That so many cases are too few to do something ("to tell"), and how many it takes; without a full stop."""
    count = WORDS[cases] if cases < len(WORDS) else str(cases)
    said = f"{count} {unit}{' is' if cases == 1 else 's are'} too few {purpose}"
    return said + (f"; at least {WORDS[MIN_CASES]} are needed" if cases < MIN_CASES else "")


def _joined(parts: Sequence[str]) -> str:
    *most, last = parts or [""]
    return f"{', '.join(most)} and {last}" if most else last


def share(wins: int, cases: int, unit: Unit) -> str:
    """Of how many cases the lane won: "on both prompts", "in 6 of 7 repeats"."""
    of = "on" if unit == "prompt" else "in"
    if cases == 1:
        return f"{of} the one {unit}" if wins else f"{of} no {unit}"
    count = f"{wins} of {cases}" if wins < cases else "both" if cases == 2 else f"all {cases}"
    return f"{of} {count} {unit}s"
