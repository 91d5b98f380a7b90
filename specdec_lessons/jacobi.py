"""Jacobi decoding: guess a row of tokens, let the target rewrite all in one pass, repeat (Santilli et al. 2023).

Each pass makes at least one more token certain: the first uncertain one was written after certain ones.
So n tokens take at most n passes, as in plain decoding, and fewer where guesses happen to come out right. Lookahead
keeps a window of such rows and remembers the n-grams that occur in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_core.runtime.reader import Reader
from specdec_core.tree import TokenTree


@dataclass(frozen=True, slots=True)
class JacobiRow:
    """The tokens after a pass; the first `certain` of them are what greedy decoding writes."""

    tokens: list[int]
    certain: int


def jacobi(reader: Reader, root: int, guess: Sequence[int]) -> list[JacobiRow]:
    """The rows from the first guess until all are certain; each but the first took one pass.

    Args:
        reader: has read the text but for its last token, `root`; is left unchanged.
        guess: the first guess of what follows the root, at least one token.
    """
    rows = [JacobiRow(list(guess), 0)]
    while rows[-1].certain < len(guess):
        before = rows[-1].tokens
        written = reader.read(root, TokenTree.chain(before)).argmax(-1).tolist()[: len(before)]
        right = next((at for at, token in enumerate(before) if token != written[at]), len(before))
        # after correct tokens the next one is correct too
        rows.append(JacobiRow(written, min(len(before), right + 1)))
    return rows
