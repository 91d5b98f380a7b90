"""Rows of guesses that the target rewrites pass by pass, and which tokens of lookahead's window attend to which."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

Pattern = Literal["count", "list"]
Guess = Literal["wrong", "half", "right"]

START = 6  # the last certain number
COMMA = 0
_NUMBERS = 64


def names(tokens: list[int]) -> list[str]:
    """Tokens as they are shown: numbers, and a comma."""
    return ["," if token == COMMA else str(token) for token in tokens]


def _next(pattern: Pattern, tokens: tuple[int, ...]) -> int:
    """What the scripted target writes: it counts on from the last number; in a list, a comma follows each."""
    if pattern == "list" and tokens and tokens[-1] != COMMA:
        return COMMA
    last = next((token for token in reversed(tokens) if token != COMMA), START - 1)
    return min(last + 1, _NUMBERS - 1)


def _one_hot(token: int) -> list[float]:
    return [1.0 if each == token else 0.0 for each in range(_NUMBERS)]


@lru_cache(maxsize=64)
def rows(pattern: Pattern, guess: Guess, positions: int = 5) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The rows of the core's `jacobi` from the first guess on, each with its number of certain tokens.

    Raises:
        ValueError: if there is no such target or guess.
    """
    from specdec_lessons.jacobi import jacobi
    from specdec_measure import testing

    if pattern not in get_args(Pattern) or guess not in get_args(Guess) or not 1 <= positions <= 12:
        raise ValueError(
            f"Rows are of {', '.join(get_args(Pattern))}, begin {', '.join(get_args(Guess))}, and have 1 to 12 places; "
            f"got {pattern}, {guess}, {positions}."
        )
    models = testing.scripted(lambda tokens: _one_hot(_next(pattern, tokens)))
    text: tuple[int, ...] = (START,)
    for _ in range(positions):
        text += (_next(pattern, text),)
    right = list(text[1:])
    first = {
        "wrong": [START - 1] * positions,
        "half": [START - 1 if at % 2 else token for at, token in enumerate(right)],
        "right": right,
    }[guess]
    found = jacobi(models.target.reader(positions + 2), START, first)
    return tuple((tuple(row.tokens), row.certain) for row in found)


@lru_cache(maxsize=256)
def seen(level: int, column: int, columns: int, levels: int) -> tuple[tuple[bool, ...], ...]:
    """Which cells of the window, level by level, the token at one of them may look at; itself counts.

    Raises:
        ValueError: if there is no such cell.
    """
    from specdec_core.proposers.lookup.lookahead import branch

    if not (0 <= level < levels <= 7 and 0 <= column < columns <= 32):
        raise ValueError(
            f"A window of {levels} levels and {columns} columns has no cell at level {level}, column {column}."
        )
    window = [[at * levels + row for row in range(levels)] for at in range(columns)]
    visible = branch(window).visible()[level * columns + column].tolist()
    return tuple(tuple(visible[row * columns : (row + 1) * columns]) for row in range(levels))
