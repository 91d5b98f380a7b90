"""How likely a guess is accepted, learnt while decoding from the confidence of earlier guesses and what became of them.

An online logistic fit: the log-odds of acceptance are the confidence's log-odds times one slope, plus an intercept for
each depth. It starts as the draft's own estimate (slope 1, intercepts 0), towards which a penalty pulls until there is
data. Where the confidence comes from does not matter: the probability of the draft's most likely token, or a head
trained to predict acceptance.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

DEEPEST = 8  # guesses at this depth and below share an intercept
KEPT_GUESSES = 256  # judged guesses that are fitted, the newest ones
EVERY = 16  # judged guesses from one step of the fit to the next
PULL = 4.0  # how strongly slope and intercepts are pulled to where they started, in judged guesses of a half


class Survival:
    """The probability that a guess of some depth and confidence is accepted if those before it are."""

    def __init__(self) -> None:
        self.slope = 1.0
        self.intercepts = [0.0] * DEEPEST
        self.judged: deque[tuple[int, float, float]] = deque(maxlen=KEPT_GUESSES)  # place, log-odds, accepted
        self.since = 0  # guesses judged since the last step of the fit

    def chance(self, place: int, confidence: float) -> float:
        """Of the guess at that place of a chain, 0 for the first."""
        return _probability(self.intercepts[_depth(place)] + self.slope * _log_odds(confidence))

    def chances(self, confidences: Sequence[float]) -> list[float]:
        """Of the guesses of a chain, from its first."""
        return [self.chance(place, confidence) for place, confidence in enumerate(confidences)]

    def observe(self, confidences: Sequence[float], accepted: int) -> None:
        """A chain was sent, and so many were accepted; what follows the first rejected guess was not judged."""
        for place, confidence in enumerate(confidences[: accepted + 1]):
            self.judged.append((_depth(place), _log_odds(confidence), float(place < accepted)))
            self.since += 1
        if self.since >= EVERY:
            self.since = 0
            self._fit()

    def _fit(self) -> None:
        """One Newton step. Only a guess's own intercept and the slope act on it, so the Hessian is a diagonal with one
        full row, which is eliminated."""
        pull = PULL / 4  # p (1 - p) of a guess with even odds
        slope_gradient, slope_curvature = pull * (1.0 - self.slope), pull
        gradients = [-pull * intercept for intercept in self.intercepts]
        curvatures, mixed = [pull] * DEEPEST, [0.0] * DEEPEST
        for depth, odds, accepted in self.judged:
            chance = _probability(self.intercepts[depth] + self.slope * odds)
            missed, weight = accepted - chance, chance * (1.0 - chance)
            gradients[depth] += missed
            curvatures[depth] += weight
            mixed[depth] += weight * odds
            slope_gradient += missed * odds
            slope_curvature += weight * odds * odds
        eliminated = [both / own for both, own in zip(mixed, curvatures, strict=True)]
        slope_gradient -= math.fsum(e * gradient for e, gradient in zip(eliminated, gradients, strict=True))
        slope_curvature -= math.fsum(e * both for e, both in zip(eliminated, mixed, strict=True))
        step = slope_gradient / slope_curvature
        damped = min(1.0, 1.0 / max(abs(step), 1e-9))
        self.slope = max(0.0, self.slope + damped * step)
        for depth, (gradient, own, both) in enumerate(zip(gradients, curvatures, mixed, strict=True)):
            move = (gradient - both * step) / own
            self.intercepts[depth] += max(-1.0, min(1.0, move))


def _depth(place: int) -> int:
    return min(place, DEEPEST - 1)


def _log_odds(confidence: float) -> float:
    """Bounded, as a confidence may be 0 or 1."""
    clear = min(max(confidence, 1e-4), 1.0 - 1e-4)
    return math.log(clear / (1.0 - clear))


def _probability(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-log_odds))
