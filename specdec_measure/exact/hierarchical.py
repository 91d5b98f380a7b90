"""Hierarchical verification in its plain form, enumerated: what it keeps, and what that costs in further passes.

HSD (Zhou et al. 2026, arXiv 2601.05724) judges prefixes by the ratio of joint probabilities r(x_1 … x_t). From the
whole block backwards, a prefix of t tokens is kept with the excess of the target's branch over that of the draft's
there, and what follows is drawn again, token by token, from the excess of the joint probabilities: every further one
needs a pass of both models. It may keep more than block verification does, and writes less per pass. Its capped form
draws one token instead and is block verification itself: r* is the running product that `rules.block` caps at 1, before
its last factor is, and the branch divergences are q(x_1 … x_t) times the masses S_t there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from .distribution import departure
from .early_stop import blocks
from .enumeration import Context, NextProbs


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Exact means over all outcomes of a round of the plain form.

    Attributes:
        accepted: drafted tokens that are kept.
        tokens: that are written: the whole block, kept or drawn again, and a bonus where all of it was kept.
        passes: of the target; the tokens drawn again need one each, the first of them aside.
        distance: total variation from what the target would have written.
    """

    accepted: float
    tokens: float
    passes: float
    distance: float


def hierarchical(gamma: int, p: NextProbs, q: NextProbs) -> Hierarchical:
    """A round of `gamma` drafted tokens."""
    written: dict[Context, float] = defaultdict(float)
    accepted = tokens = passes = 0.0
    for block, drafted in blocks(gamma, q):
        alive = drafted
        for kept in range(gamma, -1, -1):
            chance = alive * _kept(block, kept, p, q)
            alive -= chance
            accepted += chance * kept
            tokens += chance * (gamma + (kept == gamma))
            passes += chance * (1 + max(0, gamma - kept - 1))
            for text, share in _completed(block[:kept], gamma, p, q):
                written[text] += chance * share
    return Hierarchical(accepted, tokens, passes, departure(written, p))


def _joint(text: Context, probs: NextProbs) -> float:
    chance = 1.0
    for at, token in enumerate(text):
        chance *= probs(text[:at])[token]
    return chance


def _excess(text: Context, more: NextProbs, less: NextProbs) -> list[float]:
    """How much more of each continuation `more` has than `less`, in joint probabilities."""
    high, low = _joint(text, more), _joint(text, less)
    return [max(0.0, high * a - low * b) for a, b in zip(more(text), less(text), strict=True)]


def _kept(block: Context, kept: int, p: NextProbs, q: NextProbs) -> float:
    """The probability that so many tokens are kept if no longer prefix is."""
    if kept == len(block):
        return min(1.0, _joint(block, p) / _joint(block, q))
    if not kept:
        return 1.0
    gain, loss = (sum(_excess(block[:kept], *pair)) for pair in ((p, q), (q, p)))
    return gain / max(gain, loss) if max(gain, loss) > 0.0 else 1.0


def _completed(text: Context, gamma: int, p: NextProbs, q: NextProbs) -> Iterator[tuple[Context, float]]:
    """A kept prefix continued to the block's length by what the target has in excess; a bonus after a whole block."""
    if len(text) == gamma:
        yield from (((*text, token), chance) for token, chance in enumerate(p(text)))
        return
    border = [(text, 1.0)]
    while border:
        before, chance = border.pop()
        if len(before) == gamma:
            yield before, chance
            continue
        excess = _excess(before, p, q)
        row = excess if sum(excess) > 0.0 else p(before)
        border += [((*before, token), chance * x / sum(row)) for token, x in enumerate(row) if x > 0.0]
