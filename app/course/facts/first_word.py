"""Time to the first token and for the rest: recorded, and modelled for another machine."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_measure import theory

from .machines import profile, prompt_seconds
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
class AnswerTimes:
    """Seconds of an answer: the target reads the prompt, the draft reads it, all rounds; and how long one round is."""

    prompt_s: float
    draft_s: float
    rest_s: float
    round_s: float

    @property
    def seconds(self) -> float:
        """Total seconds."""
        return self.prompt_s + self.draft_s + self.rest_s


def answer(machine: str, prompt: int, tokens: int, alpha: float, gamma: int) -> AnswerTimes:
    """An answer of that many tokens to a prompt of that many, modelled for a serving engine; γ = 0 is plain decoding.

    The pass over the prompt yields the first token (this lab's loop differs: it leaves the prompt's last token to the
    first round). The draft, if there is one, reads the prompt next. Every round commits E tokens (Equation 1 of
    `theory`) and costs γ draft passes and a target pass over γ + 1 tokens, at the context length of the prompt.
    """
    costs, (target, draft) = profile(machine).costs(1, prompt), prompt_seconds(machine, prompt)
    assert costs.draft is not None
    each = gamma * costs.draft(1) + costs.target(gamma + 1)
    rounds = max(0, tokens - 1) / theory.tokens_per_pass(alpha, gamma)
    return AnswerTimes(target, draft if gamma else 0.0, rounds * each, each)


def answer_gain(machine: str, prompt: int, tokens: int, alpha: float, gamma: int) -> float:
    """Seconds of the whole answer by plain decoding relative to those with guesses."""
    plain = answer(machine, prompt, tokens, 0.0, 0)
    return plain.seconds / answer(machine, prompt, tokens, alpha, gamma).seconds
