"""Repeated text: which output tokens say again, word for word, what the output has said before.

Small models loop, and a loop is easy to guess: acceptance, tokens per pass and speedups measured on it flatter every
proposer, prompt lookup above all. So a run's figures say how much of its text repeats.

Definition. A run of `RUN` consecutive output tokens is a repeat where the output holds the same run before it, and by
now more often than the prompt does. Every token of such a run is repeated; the first occurrence is not. It follows
that

- a loop is repeated from its second turn on, once that is `RUN` tokens long, whatever its period;
- a copy of the prompt, edited or not, is no repeat, as often as the prompt has the same words;
- a refrain or a list's phrase of fewer than `RUN` tokens is none, and a longer one is: it is guessed as easily.

What is repeated depends on the text so far alone, so it can be marked while a run goes on. Repeats are derived from the
record and not stored, so every old trace has them. The player finds the same ones (`app/player/static/repeats.js`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Trace

RUN = 16  # tokens: about a sentence; phrases that lists and code share are shorter
LOOP = 0.2  # a text with this share of repeated tokens is a loop
LEAST_BEFORE = 16  # tokens before the first repeat that say something by themselves


@dataclass(frozen=True, slots=True)
class Span:
    """Output tokens `start` to `end` (exclusive) are repeated, `period` tokens after what they repeat.

    `period` is None where the distance changes within the span.
    """

    start: int
    end: int
    period: int | None

    @property
    def size(self) -> int:
        """How many tokens it has."""
        return self.end - self.start

    @property
    def times(self) -> float | None:
        """How many times the same `period` tokens stand there, the first time included; None for no loop."""
        if self.period is None or self.size < self.period:
            return None
        return 1 + self.size / self.period


@dataclass(frozen=True, slots=True)
class Before:
    """The rounds that ended before the first repeated token: their tokens, their target passes."""

    tokens: int
    passes: int

    @property
    def tokens_per_pass(self) -> float:
        """τ of these rounds."""
        return self.tokens / self.passes


@dataclass(frozen=True, slots=True)
class Loops:
    """What repeats in an output of `tokens` tokens.

    Attributes:
        spans: maximal, in their order, no two of them touching.
        before: what was measured before the first repeat; None where nothing repeats, rounds were not recorded, or
            fewer than `LEAST_BEFORE` tokens came before.
    """

    tokens: int
    spans: tuple[Span, ...] = ()
    before: Before | None = None

    @property
    def repeated(self) -> int:
        """How many tokens are repeated."""
        return sum(span.size for span in self.spans)

    @property
    def share(self) -> float:
        """Repeated tokens by all tokens; 0 for an empty output."""
        return self.repeated / self.tokens if self.tokens else 0.0

    @property
    def what(self) -> str:
        """What repeats, as a clause: "the last 90 of 128 tokens repeat the same 6 tokens"; empty if nothing does."""
        if not self.spans:
            return ""
        last = len(self.spans) == 1 and self.spans[0].end == self.tokens
        many = f"{'the last ' if last else ''}{self.repeated} of {self.tokens} tokens"
        if len(self.spans) > 1:
            return f"{many}, in {len(self.spans)} places, repeat earlier text word for word"
        [span] = self.spans
        if span.times is None:
            return f"{many} repeat earlier text word for word"
        return f"{many} repeat the same {'token' if span.period == 1 else f'{span.period} tokens'}"

    @property
    def sentence(self) -> str:
        """What repeats, what that means for figures, and τ without it; empty if nothing repeats."""
        if not self.spans:
            return ""
        said = f"{self.what[0].upper()}{self.what[1:]}: the figures of this run flatter every proposer."
        if self.before is not None:
            said += f" Before the first repeat: {self.before.tokens_per_pass:.2f} tokens per pass."
        return said

    @property
    def remark(self) -> str:
        """The same, short, for a place beside a figure: "70% of the text repeats, before that τ = 1.80"."""
        if not self.spans:
            return ""
        before = f", before that τ = {self.before.tokens_per_pass:.2f}" if self.before is not None else ""
        return f"{percent(self.share)} of the text repeats{before}"


def percent(share: float) -> str:
    """A share above 0 in words, at least 1%."""
    return f"{max(0.01, share):.0%}"


def sentences(lanes: Mapping[str, Loops]) -> list[str]:
    """What repeats in the lanes of a run: one sentence where all of them agree, else one for each that repeats."""
    found = {name: loops for name, loops in lanes.items() if loops.spans}
    if len(found) == len(lanes) and len({loops.what for loops in found.values()}) == 1:
        before = "; ".join(
            f"{name} {loops.before.tokens_per_pass:.2f}" for name, loops in found.items() if loops.before
        )
        said = Loops(next(iter(found.values())).tokens, next(iter(found.values())).spans).sentence
        return [f"{said} Tokens per pass before the first repeat: {before}." if before else said]
    return [f"{name}: {loops.sentence}" for name, loops in found.items()]


def find(ids: Sequence[int], texts: Sequence[str] = (), prompt: str = "") -> list[Span]:
    """The repeated spans of an output.

    Args:
        ids: the output's token ids, prompt excluded.
        texts: their pieces of the text, one each; without them nothing counts as a copy of the prompt.
        prompt: the text that was read.
    """
    counts: dict[tuple[int, ...], int] = {}
    allowed: dict[tuple[int, ...], int] = {}
    latest: dict[tuple[int, ...], int] = {}
    starts: list[tuple[int, int]] = []  # where a repeated run begins, and how far before it stood last
    for start in range(len(ids) - RUN + 1):
        run = tuple(ids[start : start + RUN])
        counts[run] = counts.get(run, 0) + 1
        if counts[run] > 1:
            if run not in allowed:
                allowed[run] = _occurrences("".join(texts[start : start + RUN]), prompt)
            if counts[run] > allowed[run]:
                starts.append((start, start - latest[run]))
        latest[run] = start
    return _merged(starts)


def _occurrences(text: str, prompt: str) -> int:
    """How often a text stands in the prompt, spaces around it aside; occurrences may overlap."""
    text = text.strip() or text
    if not text:
        return 0
    found, at = 0, prompt.find(text)
    while at >= 0:
        found, at = found + 1, prompt.find(text, at + 1)
    return found


def _merged(starts: Sequence[tuple[int, int]]) -> list[Span]:
    """Runs that touch or overlap as one span."""
    spans: list[Span] = []
    for start, period in starts:
        if spans and start <= spans[-1].end:
            last = spans[-1]
            spans[-1] = Span(last.start, start + RUN, period if period == last.period else None)
        else:
            spans.append(Span(start, start + RUN, period))
    return spans


def of(trace: Trace) -> Loops:
    """What repeats in a recorded output, and what was measured before it."""
    output = trace.output
    spans = find(output.ids, output.texts, trace.header.prompt)
    return Loops(len(output.ids), tuple(spans), _before(trace, spans[0].start) if spans else None)


def _before(trace: Trace, first: int) -> Before | None:
    tokens = passes = 0
    for row in trace.rounds:
        if tokens + len(row.committed.token) > first:
            break
        tokens, passes = tokens + len(row.committed.token), passes + 1
    return Before(tokens, passes) if tokens >= LEAST_BEFORE else None
