"""What the course shows of judging guesses: a chain, in a few lines. The rules do the same for trees, on tensors.

`tests/app/test_course_judging.py` holds both equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def verify(guesses: Sequence[str], answers: Sequence[str]) -> list[str]:
    """What a round writes at temperature 0; there is one answer of the target more than there are guesses."""
    written: list[str] = []
    for guess, answer in zip(guesses, answers[:-1], strict=True):
        if guess != answer:
            return [*written, answer]  # corrected
        written.append(guess)
    return [*written, answers[-1]]  # the bonus


def keep_or_replace(
    guess: int,
    p: Sequence[float],
    q: Sequence[float],
    coin: float,
    draw: Callable[[Sequence[float]], int],
) -> int:
    """The token that is written after a guess drawn from q; `draw` picks a token in proportion to weights."""
    threshold = min(1.0, p[guess] / q[guess])
    if coin < threshold:
        return guess
    missing = [max(0.0, wanted - guessed) for wanted, guessed in zip(p, q, strict=True)]
    return draw(missing)


def chance_to_keep(p: float, q: float, weight: float = 1.0) -> float:
    """How often a guess stays that has probability p for the target and q for the draft."""
    mixture = weight * p + (1.0 - weight) * q
    return min(1.0, mixture / q)
