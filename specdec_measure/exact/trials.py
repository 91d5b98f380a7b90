"""Simulated rounds of a rule on toy distributions, to compare with what `exact` enumerates.

Drafts, coins and corrections of all trials are drawn at once. How a draft is judged does not depend on the trial, so
the rule runs once for each distinct draft and each number of accepted tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specdec_core.foundations.lazy_torch import torch
from specdec_core.rules.base import Rule
from specdec_core.tree import TokenTree

from .distribution import Context, Distribution, NextProbs

MAX_TOKENS = 1_000_000  # tokens of all trials together

Texts = NDArray[np.int64]  # (trials, length)


def plain_texts(p: NextProbs, length: int, trials: int, seed: int) -> Texts:
    """`trials` texts of `length` tokens, each token drawn from `p`. Raises as below."""
    return _continued(_room(length, trials), np.zeros(trials, np.int64), p, np.random.default_rng(seed))


def round_texts(
    rule: Rule, drafts: int, p: NextProbs, q: NextProbs, length: int, trials: int, seed: int
) -> tuple[Texts, NDArray[np.int64]]:
    """The first `length` tokens of `trials` rounds, each continued by plain sampling from `p`; the tokens accepted.

    Args:
        rule: a rule that judges token by token, as `Rule.judge` says.
        drafts: the length of the drafted chain, less than `length`.
        p, q: the target's and the draft's distributions.
        length: tokens of each text.
        trials: their number.
        seed: of all random numbers.

    Raises:
        ValueError: if the rule looks ahead, if `length` is too small, or if there are more tokens than `MAX_TOKENS`.
    """
    if rule.looks_ahead:
        raise ValueError(f"'{rule.name}' judges a token by those after it; trials need a rule that does not")
    if length <= drafts:
        raise ValueError(f"{drafts} drafted tokens write up to {drafts + 1}, got length {length}")
    texts = _room(length, trials)
    random = np.random.default_rng(seed)
    drafted = _continued(np.zeros((trials, drafts), np.int64), np.zeros(trials, np.int64), q, random)
    coins = random.random((trials, drafts))
    corrections = random.random(trials)
    lengths = np.zeros(trials, np.int64)
    for draft in np.unique(drafted, axis=0) if trials else ():
        mine = np.flatnonzero((drafted == draft).all(axis=1))
        tokens = tuple(int(token) for token in draft)
        tree = TokenTree.chain(tokens)
        contexts = [tokens[:end] for end in range(drafts + 1)]
        rows_p = torch.tensor([list(p(context)) for context in contexts], dtype=torch.float64)
        rows_q = torch.tensor([list(q(context)) for context in contexts[:-1]], dtype=torch.float64)
        thresholds = rule.judge(tree, rows_p, rows_q, [0.0] * drafts).thresholds
        passed = np.cumprod(coins[mine] < [limit or 0.0 for limit in thresholds], axis=1).sum(axis=1)
        for kept in np.unique(passed):
            these = mine[passed == kept]
            judged = rule.judge(tree, rows_p, rows_q, coins[these[0]].tolist())
            assert len(judged.path) == kept, "the thresholds are not what the rule judges by"
            texts[these, :kept] = draft[:kept]
            texts[these, kept] = _drawn(judged.final.numpy(), corrections[these])
            lengths[these] = kept + 1
    return _continued(texts, lengths, p, random), lengths - 1


def shares(texts: Texts) -> Distribution:
    """The relative frequency of each text."""
    found, counts = np.unique(texts, axis=0, return_counts=True)
    return {
        tuple(int(token) for token in text): float(count) / len(texts)
        for text, count in zip(found, counts, strict=True)
    }


def _room(length: int, trials: int) -> Texts:
    if not (length >= 1 and trials >= 1 and length * trials <= MAX_TOKENS):
        raise ValueError(
            f"{trials:,} texts of {length} tokens were asked for; at least one of each, {MAX_TOKENS:,} tokens in all"
        )
    return np.zeros((trials, length), np.int64)


def _continued(
    texts: Texts, lengths: NDArray[np.int64], next_probs: NextProbs, random: np.random.Generator
) -> Texts:
    """Complete `texts`, of which only so many tokens are there, from `next_probs`, in place."""
    for place in range(texts.shape[1]):
        waiting = np.flatnonzero(lengths <= place)
        uniforms = random.random(len(waiting))
        prefixes, group = np.unique(texts[waiting, :place], axis=0, return_inverse=True)
        for number, prefix in enumerate(prefixes):
            these = np.flatnonzero(group.reshape(-1) == number)
            context: Context = tuple(int(token) for token in prefix)
            texts[waiting[these], place] = _drawn(next_probs(context), uniforms[these])
    return texts


def _drawn(probs: Sequence[float] | NDArray[np.float64], uniforms: NDArray[np.float64]) -> Texts:
    """The tokens at which the cumulative distribution passes each uniform number; probability 0 is never drawn."""
    cumulative = np.cumsum(np.asarray(probs, np.float64))
    tokens = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    drawn: Texts = np.minimum(tokens, np.searchsorted(cumulative, cumulative[-1]))
    return drawn
