"""One greedy round of a scripted target and draft, run by the real loop: which guesses stay, and what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from specdec_core.settings import Settings

__all__ = ["greedy_tokens"]


@dataclass(frozen=True, slots=True)
class GreedyRound:
    """The round's result.

    Attributes:
        guesses: the drafted words.
        verdicts: for each guess: accepted, rejected or unreached.
        answers: for each position the word that the target would write there, given the guesses before it.
        written: the words that the round committed.
        last: the source of the last one, `corrected` or `bonus`.
    """

    guesses: tuple[str, ...]
    verdicts: tuple[str, ...]
    answers: tuple[str, ...]
    written: tuple[str, ...]
    last: str


def greedy_tokens(length: int, wrong: int) -> int:
    """Tokens that one round writes if guess number `wrong` of `length` is the first wrong one; 0: none is wrong.

    Raises:
        ValueError: if there is no such guess.
    """
    if not (1 <= length <= 16 and 0 <= wrong <= length):
        raise ValueError(
            f"a round of {length} guesses with number {wrong} wrong cannot be played; take up to 16"
        )
    right = [f"right {place}" for place in range(length + 1)]
    other = [f"other {place}" for place in range(length + 1)]
    return len(play(right, right if wrong == 0 else [*right[: wrong - 1], *other[wrong - 1 :]]).written)


def play(target: Sequence[str], draft: Sequence[str]) -> GreedyRound:
    """One round at temperature 0.

    Args:
        target: the words that the target writes by itself, one more than are guessed.
        draft: the words that the draft writes. A target given these continues with them, as a language model
            continues any text.
    """
    return _played(tuple(target), tuple(draft))


@lru_cache(maxsize=128)
def _played(target: tuple[str, ...], draft: tuple[str, ...]) -> GreedyRound:
    root = "the last word written"
    words = list(dict.fromkeys([root, *target, *draft]))
    number = {word: at for at, word in enumerate(words)}

    def following(path: tuple[str, ...], texts: Sequence[tuple[str, ...]]) -> str:
        at = len(path)
        return next((text[at] for text in texts if text[:at] == path and at < len(text)), root)

    def next_probs(*texts: tuple[str, ...]) -> Callable[[tuple[int, ...]], list[float]]:
        def probabilities(context: tuple[int, ...]) -> list[float]:
            said = following(tuple(words[token] for token in context[1:]), texts)
            return [float(word == said) for word in words]

        return probabilities

    gamma = len(target) - 1
    from specdec_core import decode  # here: it imports torch
    from specdec_measure.testing import scripted

    trace = decode(
        scripted(next_probs(target, draft), next_probs(draft)),
        [number[root]],
        Settings(draft_length=gamma, rule="exact-match", max_new_tokens=gamma + 1),
    )
    row = trace.rounds[0]
    guesses = tuple(words[token] for token in row.nodes.token)
    return GreedyRound(
        guesses,
        tuple(row.nodes.verdict),
        tuple(following(guesses[:at], (target, draft)) for at in range(gamma + 1)),
        tuple(words[token] for token in row.committed.token),
        row.committed.source[-1],
    )
