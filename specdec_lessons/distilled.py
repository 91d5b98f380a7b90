"""What training a draft reports while it is watched, and how it is scored; `distilling` trains. Without torch.

At temperature 0 the target's text is fixed, so a draft's rounds follow from where its guesses agree with that text: a
chain is accepted up to its first disagreement. So tokens per pass are counted, exactly, without a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Literal

DRAFT_LENGTH = 4
HELD_BACK = 10  # prompts that are raced on
T_95 = 2.262  # Student's t for a 95% interval of the mean of so many
Phase = Literal["reading", "writing", "training", "racing"]


@dataclass(frozen=True, slots=True)
class Score:
    """Rounds of a draft on texts that are known: α, and the mean over the texts of their tokens per pass."""

    acceptance: float
    tokens_per_pass: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How far it is: `seconds` computed so far, `share` of the phase, `tokens` written, then read by the draft.

    `score` is the draft's on the texts held back; None before it has been scored the first time.
    """

    phase: Phase
    seconds: float
    share: float
    tokens: int
    score: Score | None = None


@dataclass(frozen=True, slots=True)
class Heat:
    """One prompt's race: tokens per pass, and seconds, of the draft before training, after it, and without a draft."""

    before: float
    after: float
    before_s: float
    after_s: float
    plain_s: float


@dataclass(frozen=True, slots=True)
class Distilled:
    """A trained draft: its race against itself before, the score of the draft that ships, and its file."""

    heats: tuple[Heat, ...]
    shipped: Score | None
    weights: bytes  # safetensors, float16
    steps: int
    tokens: int  # written by the target

    @property
    def gain(self) -> tuple[float, float, float]:
        """Tokens per pass gained: the mean over the prompts and its 95% interval."""
        return interval([heat.after - heat.before for heat in self.heats])

    def speedup(self, which: Literal["before", "after"]) -> float:
        """The measured speedup over plain decoding on all prompts together."""
        drafted = sum(heat.before_s if which == "before" else heat.after_s for heat in self.heats)
        return sum(heat.plain_s for heat in self.heats) / drafted


Report = Standing | Distilled


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of `HELD_BACK` values, and its 95% interval by Student's t."""
    if len(values) != HELD_BACK:
        raise ValueError(f"The interval is for {HELD_BACK} values, got {len(values)}.")
    middle, reach = mean(values), T_95 * stdev(values) / sqrt(len(values))
    return middle, middle - reach, middle + reach


def scored(agreements: Sequence[Sequence[bool]], length: int = DRAFT_LENGTH) -> Score:
    """The score of a draft that proposes chains of `length` tokens, at temperature 0.

    `agreements` has for each text whether the draft's guess for each of its tokens, after those before, is that token.
    """
    accepted = judged = 0
    per_text = []
    for agrees in agreements:
        at = passes = 0
        while at < len(agrees):
            proposed = min(length, len(agrees) - at)
            kept = next((n for n in range(proposed) if not agrees[at + n]), proposed)
            accepted, judged = accepted + kept, judged + min(kept + 1, proposed)
            at, passes = at + kept + 1, passes + 1
        per_text.append(len(agrees) / passes)
    return Score(accepted / judged, mean(per_text))
