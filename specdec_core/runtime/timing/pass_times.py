"""T(n): how long a pass over n tokens takes, read off the widths that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real

from specdec_core.foundations.errors import SettingsError

Curve = Mapping[int, float] | Sequence[float]
"""T(n), the time of a target pass over n tokens, in any unit: {n: T(n)} or [T(1), T(2), …]."""


def pass_time(curve: Curve, tokens: int) -> float:
    """T(n) read off a curve: linear between its points, its last slope continued beyond them (never downwards)."""
    points = _points(curve)
    tokens = whole("number of tokens in a pass", tokens, least=1)
    above = next((at for at, (width, _) in enumerate(points) if width >= tokens), len(points) - 1)
    width, time = points[above]
    if width == tokens or len(points) == 1:
        return time
    before, earlier = points[above - 1]
    slope = (time - earlier) / (width - before)
    return time + (tokens - width) * (slope if tokens < width else max(0.0, slope))


def _points(curve: Curve) -> list[tuple[int, float]]:
    """The curve's (n, T(n)) in ascending n, starting at 1."""
    pairs = curve.items() if isinstance(curve, Mapping) else enumerate(curve, start=1)
    points = sorted(pairs)
    if not points or points[0][0] != 1:
        raise SettingsError("A width curve must say what a pass over one token costs, T(1).")
    if not all(real(time) and time > 0.0 for _, time in points):
        raise SettingsError("The times of a width curve must be numbers above 0.")
    return points


def whole(name: str, value: int, least: int = 0) -> int:
    """A whole number of at least `least`.

    Raises:
        SettingsError: if it is none, by its name.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise SettingsError(f"The {name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def real(value: object) -> bool:
    """Whether something is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
