"""What the held-back prompts say about the choice that was made on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_measure.analysis.advice import MIN_CASES, ComparedPair, compare, doubt, share, too_few
from specdec_measure.records.repeats import LOOP

from .bench import speeds
from .candidates import Candidate
from .outliers import said as outlier_sentences
from .search import mean
from .state import FitState, Stage

HELD: tuple[Stage, ...] = ("held back",)


@dataclass(frozen=True, slots=True)
class Tested:
    """A finalist on the held-back prompts.

    Attributes:
        pair: against plain decoding; None where it was not tested.
        tuning: its speed over plain decoding's on the prompts of the search, which flatters it.
        tokens_per_pass: mean over the held-back texts.
        same: how many of `texts` are plain decoding's, token by token.
    """

    candidate: Candidate
    pair: ComparedPair | None
    tuning: float | None
    tokens_per_pass: float | None
    same: int
    texts: int


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """The choice and its test.

    Attributes:
        choice: the best of the search, or plain decoding where that was not faster.
        tested: the finalists, the best of the search first.
        calculated: whether the figures are calculated for many requests; else they are measured.
        sentence: the result in words.
    """

    choice: Candidate
    tested: list[Tested]
    calculated: bool
    sentence: str

    @property
    def pair(self) -> ComparedPair | None:
        """The choice against plain decoding, on the held-back prompts; None where it is plain decoding."""
        return next((one.pair for one in self.tested if one.candidate is self.choice), None)


def judge(state: FitState, finalists: Sequence[Candidate], plain: Candidate, requests: int) -> FitVerdict:
    """Test the finalists; `requests`: how many at a time, 0 where latency was measured."""
    tested = [_tested(state, one) for one in finalists]
    if not tested:
        return FitVerdict(
            plain, [], requests > 0, "Nothing was measured on enough prompts, so plain decoding stays."
        )
    first = tested[0]
    pair, faster = first.pair, (first.tuning or 0.0) > 1.0
    if pair is not None:
        faster = pair.ratio > 1.0
    choice = first.candidate if faster else plain
    sentence = _sentence(first, choice is plain, requests)
    if choice is not plain and (better := _better(state, tested)):
        sentence += f" {better}"
    if (penalty := plain.settings.repetition_penalty) not in (None, 1):
        sentence += f" All of this is with a repetition penalty of {penalty:g}."
    sentence += _loops(state, choice) + outlier_sentences(state, [one.label for one in finalists])
    return FitVerdict(choice, tested, requests > 0, sentence)


def _tested(state: FitState, one: Candidate) -> Tested:
    held, tuned = speeds(state, HELD, one.label), speeds(state, ("search",), one.label)
    tuned = tuned or speeds(state, ("scouting",), one.label)
    rows = [cell.measured for cell in state.cells.values() if cell.stage in HELD and cell.usable]
    plain = {(row.family, row.name): row.text_sha for row in rows if row.lane == 0}
    mine = {(row.family, row.name): row for row in rows if row.label == one.label}
    passes = [row.tokens_per_pass for row in mine.values() if row.tokens_per_pass]
    return Tested(
        one,
        compare(list(held.values()), [1.0] * len(held)) if held else None,
        mean(list(tuned.values())) if tuned else None,
        sum(passes) / len(passes) if passes else None,
        sum(row.text_sha == plain.get(place) for place, row in mine.items()),
        len(mine),
    )


def _sentence(first: Tested, stays: bool, requests: int) -> str:
    name, pair = first.candidate.label, first.pair
    over = "plain decoding"
    how = "measured"
    if requests:
        over = f"the tokens per second of plain decoding at {requests} requests at a time"
        how = "calculated"
    if pair is None:
        found = f"{first.tuning:.2f}× {over} on the prompts of the search" if first.tuning else "not measured"
        return f"{name}: {found}; nothing was tested on held-back prompts, so the figure flatters it."
    prompts = f"{pair.cases} held-back prompt{'s' if pair.cases != 1 else ''}"
    interval = f"95% interval {span(pair.low, pair.high)}" if pair.cases > 1 else "too few for an interval"
    figure = f"{pair.ratio:.2f}× {over} on {prompts}, {how} ({interval})"
    if stays:
        return f"Plain decoding stays: the best candidate was {name}, at {figure}."
    if pair.clear:
        return f"{name}: {figure}."
    if pair.cases >= MIN_CASES:
        won = share(pair.wins, pair.cases, "prompt")
        unclear = "That is not clearly faster than plain decoding"
        return f"{name}: {figure}. {unclear}: it was faster {won}, and {doubt(pair)}."
    few = too_few(pair.cases, "prompt", "to call this faster")
    return f"{name}: {figure}. {few[:1].upper()}{few[1:]}."


def _better(state: FitState, tested: Sequence[Tested]) -> str:
    """A sentence where a runner-up was clearly faster on the held-back prompts; the choice is not made there."""
    first = speeds(state, HELD, tested[0].candidate.label)
    for other in tested[1:]:
        theirs = speeds(state, HELD, other.candidate.label)
        common = [place for place in theirs if place in first]
        if common:
            pair = compare([theirs[place] for place in common], [first[place] for place in common])
            if pair.clear and pair.ratio > 1.0:
                return (
                    f"{other.candidate.label} was {pair.ratio:.2f}× as fast there; the choice was made on the other "
                    "prompts, so with more of them it may change."
                )
    return ""


def _loops(state: FitState, choice: Candidate) -> str:
    shares = {
        (cell.measured.family, cell.measured.name): cell.measured.repeated or 0.0
        for cell in state.cells.values()
        if cell.stage in HELD and cell.candidate == choice.label and cell.usable
    }
    looping = sum(share >= LOOP for share in shares.values())
    if not looping:
        return ""
    which = f"{looping} of {len(shares)} texts" if len(shares) > 1 else "The only text"
    return f" {which} {'loops' if looping == 1 else 'loop'}, which flatters every proposer."


def span(low: float, high: float) -> str:
    """An interval in words; its ends may be the same figure."""
    ends = f"{low:.2f}", f"{high:.2f}"
    return " to ".join(ends) if ends[0] != ends[1] else f"{ends[0]} at both ends"
