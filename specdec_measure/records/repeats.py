"""Repeated text: which output tokens repeat earlier output word for word.

Small models loop, and a loop is easy to guess: acceptance, tokens per pass and speedups measured on it flatter every
proposer, prompt lookup above all. So a run's figures report how much of its text repeats.

Definition. A run of `RUN` consecutive output tokens is a repeat where the same run occurs earlier in the output, and by
now more often than in the prompt. All tokens of such a run are repeated; the first occurrence is not. It follows
that

- a loop is repeated from its second turn on, once that is `RUN` tokens long, whatever its period;
- a copy of the prompt, edited or not, is not a repeat, up to the number of occurrences in the prompt;
- a refrain or a list's phrase of fewer than `RUN` tokens is not one, and a longer one is: it is as easy to guess.

What is repeated depends on the text so far alone, so it can be marked during a run. Repeats are derived from the
record and not stored, so old traces have them too. The player's `model/repeats.js` finds the same
ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_core.record.trace import Trace

RUN = 16  # tokens: about a sentence; phrases that lists and code share are shorter
LOOP = 0.2  # a text with this share of repeated tokens is a loop
MIN_TOKENS_BEFORE = 16  # tokens before the first repeat needed for separate figures


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
        """Its length in tokens."""
        return self.end - self.start

    @property
    def times(self) -> float | None:
        """How many times the `period` tokens occur, the first time included; None if not a loop."""
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
        spans: maximal, in order, not touching.
        before: what was measured before the first repeat; None where nothing repeats, rounds were not recorded, or
            fewer than `MIN_TOKENS_BEFORE` tokens came before.
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
        """Share of repeated tokens; 0 for an empty output."""
        return self.repeated / self.tokens if self.tokens else 0.0

    def flatter(self, tokens_per_pass: float) -> bool:
        """Whether a run's τ is above what it was before the first repeat, or that is not known."""
        return bool(self.spans) and (self.before is None or self.before.tokens_per_pass < tokens_per_pass)

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
        """What repeats, and τ without it; empty if nothing repeats."""
        if not self.spans:
            return ""
        said = f"{self.what[0].upper()}{self.what[1:]}."
        if self.before is not None:
            said += f" Before the first repeat: {self.before.tokens_per_pass:.2f} tokens per pass."
        return said

    @property
    def remark(self) -> str:
        """A short form, to go next to a figure: how much repeats, and the tokens per pass before it."""
        if not self.spans:
            return ""
        before = (
            f" (before it {self.before.tokens_per_pass:.2f} tokens per pass)"
            if self.before is not None
            else ""
        )
        return f"{percent(self.share)} of the text is repetition, which is easy to guess{before}"


def percent(share: float) -> str:
    """A share above 0 in words, at least 1%."""
    return f"{max(0.01, share):.0%}"


def sentences(lanes: Mapping[str, Loops]) -> list[str]:
    """What repeats in the lanes of a run: one sentence if all agree, else one for each that repeats."""
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
        prompt: the text of the prompt.
    """
    counts: dict[tuple[int, ...], int] = {}
    allowed: dict[tuple[int, ...], int] = {}
    latest: dict[tuple[int, ...], int] = {}
    starts: list[tuple[int, int]] = []  # where a repeated run begins, and the distance to its last occurrence
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
    """How often a text occurs in the prompt, ignoring surrounding spaces; occurrences may overlap."""
    text = text.strip() or text
    if not text:
        return 0
    found, at = 0, prompt.find(text)
    while at >= 0:
        found, at = found + 1, prompt.find(text, at + 1)
    return found


def _merged(starts: Sequence[tuple[int, int]]) -> list[Span]:
    """Merge runs that touch or overlap."""
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
    return Before(tokens, passes) if tokens >= MIN_TOKENS_BEFORE else None
