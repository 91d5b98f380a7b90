"""Which tokens of a recorded text were easy: the target's confidence, and what the small draft would have written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from specdec_core.record.trace import Trace
from specdec_measure.theory import surprise

from .recorded import trace

__all__ = [
    "below_a_bit",
    "box_right",
    "box_text",
    "draft_millions",
    "guessed_share",
    "mean_bits",
    "surprise",
    "target_millions",
]


@dataclass(frozen=True, slots=True)
class JudgedToken:
    """A token of the text: its letters, the target's surprise at it in bits, whether the draft guessed it (None: it
    was not run there), and what the draft would have written instead."""

    text: str
    bits: float
    guessed: bool | None
    instead: str = ""


def draft_millions(example: str) -> float:
    """Parameters of the draft that guessed, in millions."""
    draft = trace(example).header.draft
    if draft is None:
        raise ValueError(f"The example “{example}” was recorded without a draft model.")
    return draft.parameters / 1e6


def target_millions(example: str) -> float:
    """Parameters of the target, in millions."""
    return trace(example).header.target.parameters / 1e6


def guessed_share(example: str) -> float:
    """Of the tokens for which the draft was run, the share it would have written itself."""
    return fmean(token.guessed for token in ribbon(example) if token.guessed is not None)


def below_a_bit(example: str) -> float:
    """The share of tokens that surprised the target by less than one bit, i.e. had a probability above one half."""
    return fmean(token.bits < 1.0 for token in ribbon(example))


def mean_bits(example: str, guessed: bool) -> float:
    """The target's mean surprise at tokens that the draft guessed, or missed."""
    found = [token.bits for token in ribbon(example) if token.guessed is guessed]
    if not found:
        raise ValueError(
            f"In the example “{example}” there is no token that the draft {'guessed' if guessed else 'missed'}."
        )
    return fmean(found)


def box_text(example: str, count: int, at: int) -> str:
    """The word in box number `at` (from 0) of those that `boxes` draws."""
    return ribbon(example)[boxes(example, count)[at]].text.strip()


def box_right(example: str, count: int, at: int) -> bool:
    """Whether the draft guessed that word."""
    return ribbon(example)[boxes(example, count)[at]].guessed is True


WITHIN = 48  # tokens of the text from which the boxes are taken, if they contain enough words


@lru_cache(maxsize=64)
def boxes(example: str, count: int) -> tuple[int, ...]:
    """Positions of the tokens in question, in the order of the text: clear cases of both kinds.

    Half are the words that the draft missed and that surprised the target most, half those it guessed that surprised
    it least, as far as there are enough of either; each word once, and no punctuation, so that they can be told apart.

    Raises:
        ValueError: if the text has too few words.
    """
    found = ribbon(example)
    words: dict[str, int] = {}
    for at, token in enumerate(found):
        word = token.text.strip()
        if token.guessed is not None and word.isalpha() and (at < WITHIN or len(words) < count):
            words.setdefault(word, at)
    if len(words) < count:
        raise ValueError(
            f"The example “{example}” has {len(words)} words that were guessed at; {count} are to be boxed."
        )
    hard = sorted((at for at in words.values() if not found[at].guessed), key=lambda at: -found[at].bits)
    easy = sorted((at for at in words.values() if found[at].guessed), key=lambda at: found[at].bits)
    most = max(count // 2, count - len(easy))
    return tuple(sorted(hard[:most] + easy[: count - min(most, len(hard))]))


@lru_cache(maxsize=64)
def ribbon(example: str) -> tuple[JudgedToken, ...]:
    """The recorded text, token by token; the draft's own most likely token is its guess.

    Raises:
        ValueError: if it was not recorded greedily with all its positions.
    """
    found = trace(example)
    if found.header.settings.get("temperature", 0.0) != 0.0:
        raise ValueError(
            f"The example “{example}” was recorded at a temperature above 0; choose a greedy one."
        )
    positions = [position for row in found.rounds for position in row.positions]
    if len(positions) != len(found.output.ids):
        raise ValueError(f"The example “{example}” was recorded without the models' own probabilities.")
    tokens = []
    for text, position in zip(found.output.texts, positions, strict=True):
        at = position.model_p.id.index(position.token) if position.token in position.model_p.id else None
        chance = position.model_p.tail if at is None else position.model_p.prob[at]
        guess = position.model_q.id[0] if position.model_q else None
        tokens.append(
            JudgedToken(
                text,
                surprise(max(chance, 1e-9)),
                None if guess is None else guess == position.token,
                _own(found, guess) if guess is not None and guess != position.token else "",
            )
        )
    return tuple(tokens)


def _own(found: Trace, token: int) -> str:
    return found.texts.get(str(token), f"⟨{token}⟩")
