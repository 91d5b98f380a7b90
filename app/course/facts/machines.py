"""Pass costs on the machines of assets/profiles, by a profile's name: recorded, or modelled as a roofline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from specdec_measure.machines.model_sizes import shape
from specdec_measure.machines.profiles import Profile, shipped
from specdec_measure.machines.roofline import PAIR, Modelled
from specdec_measure.theory import memory_bound_rate

__all__ = ["computing_ms", "knee", "memory_bound_rate", "moving_ms", "pass_ms", "pass_ratio", "weights_gb"]


def pass_ms(machine: str, tokens: int) -> float:
    """T(n): milliseconds of a target pass over n tokens."""
    return 1e3 * profile(machine).costs().target(tokens)


def pass_ratio(machine: str, tokens: int) -> float:
    """T(n)/T(1): how many plain passes a pass over n tokens costs."""
    return profile(machine).costs().ratio(tokens)


def moving_ms(machine: str, size: str, tokens: int = 1) -> float:
    """Milliseconds in which a modelled machine moves the bytes that one pass of a model of that size reads."""
    return 1e3 * modelled(machine).limits(shape(size), tokens)[0]


def computing_ms(machine: str, size: str, tokens: int = 1) -> float:
    """Milliseconds in which a modelled machine does the arithmetic of such a pass over n tokens."""
    return 1e3 * modelled(machine).limits(shape(size), tokens)[1]


def weights_gb(machine: str, size: str) -> float:
    """Gigabytes that one plain pass of a model of that size moves there."""
    found = modelled(machine)
    return found.limits(shape(size), 1)[0] * found.bytes_per_s / 1e9


def prompt_seconds(machine: str, tokens: int) -> tuple[float, float]:
    """How long a modelled machine's usual target and draft each read a prompt of so many tokens."""
    target, draft = (modelled(machine).prompt_seconds(shape(size), tokens) for size in PAIR)
    return target, draft


def knee(machine: str, size: str) -> int:
    """The number of tokens in a pass from which the arithmetic takes longer than the moving.

    Raises:
        ValueError: if it never does.
    """
    found = modelled(machine).knee(shape(size), 1, 0)
    if found is None:
        raise ValueError(f"On “{machine}” a pass of any width that is looked at is bound by memory.")
    return found


def profile(machine: str) -> Profile:
    """The profile of that name.

    Raises:
        ValueError: naming the existing ones.
    """
    found = machines()
    if machine not in found:
        raise ValueError(f"There is no machine “{machine}”. Choose one of: {', '.join(found)}.")
    return found[machine]


def modelled(machine: str) -> Modelled:
    """The profile of that name, if it is a modelled one.

    Raises:
        ValueError: if it is not.
    """
    found = profile(machine)
    if not isinstance(found, Modelled):
        raise ValueError(
            f"“{machine}” was recorded; what a pass moves and computes is known only for modelled ones."
        )
    return found


@cache
def machines() -> Mapping[str, Profile]:
    """All bundled profiles, by file name."""
    return shipped()[0]
