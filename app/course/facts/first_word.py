"""Time to the first token and for the rest: recorded, and modelled for another machine."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_core import theory

from .machines import profile
from .recorded import trace

__all__ = ["answer_gain", "first_gain", "first_ms", "rest_gain", "rest_ms"]


def first_ms(example: str, plain: bool = False) -> float:
    """Milliseconds from the start to the first token of a recorded lane: reading the prompt, then the first round."""
    found = trace(example, plain)
    return 1e3 * (found.stats.prefill_s + found.rounds[0].end_s)


def rest_ms(example: str, plain: bool = False) -> float:
    """Milliseconds of a recorded lane after its first round."""
    found = trace(example, plain)
    return 1e3 * (found.rounds[-1].end_s - found.rounds[0].end_s)


def first_gain(example: str) -> float:
    """How many times sooner than in the plain lane the first token came; below 1 it came later."""
    return first_ms(example, plain=True) / first_ms(example)


def rest_gain(example: str) -> float:
    """How many times faster than in the plain lane the tokens after the first round came."""

    def per_token(plain: bool) -> float:
        found = trace(example, plain)
        return rest_ms(example, plain) / (found.stats.tokens - len(found.rounds[0].committed.token))

    return per_token(True) / per_token(False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds of an answer: reading the prompt, the first round, all later rounds."""

    prompt_s: float
    first_s: float
    rest_s: float

    @property
    def seconds(self) -> float:
        """Total seconds."""
        return self.prompt_s + self.first_s + self.rest_s


def answer(machine: str, prompt: int, tokens: int, alpha: float, gamma: int) -> Answer:
    """An answer of that many tokens to a prompt of that many, modelled; γ = 0 is plain decoding.

    Every round commits E tokens (Equation 1 of `theory`) and costs γ draft passes and a target pass over γ + 1 tokens,
    at the context length of the prompt. The prompt itself is one pass over all of its tokens but the last, and another
    one of the draft if there are guesses.
    """
    found = profile(machine)
    empty, costs, read = found.costs(1, 0), found.costs(1, prompt), max(1, prompt - 1)
    reading = empty.target(read)
    if gamma and empty.draft is not None:
        reading += empty.draft(read)
    draft = 0.0 if costs.draft is None else costs.draft(1)
    each = gamma * draft + costs.target(gamma + 1)
    expected = theory.tokens_per_pass(alpha, gamma)
    return Answer(reading, each, max(0.0, tokens - expected) / expected * each)


def answer_gain(machine: str, prompt: int, tokens: int, alpha: float, gamma: int) -> float:
    """Seconds of the whole answer by plain decoding relative to those with guesses."""
    plain = answer(machine, prompt, tokens, 0.0, 0)
    return plain.seconds / answer(machine, prompt, tokens, alpha, gamma).seconds
