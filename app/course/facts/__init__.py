"""What a lesson can compute: every public function of every module in this folder, by name.

The lessons contain no numbers of their own: a file says `facts: {gain: speedup(alpha, gamma, cost)}` and its text
`{gain:.2f}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules
from typing import Any


@cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """All of them."""
    found: dict[str, Callable[..., Any]] = {}
    for module in iter_modules(__path__):
        loaded = import_module(f"{__name__}.{module.name}")
        for name in loaded.__all__:
            if not isfunction(getattr(loaded, name)) or name in found:
                raise TypeError(f"{loaded.__name__}.{name} is no function, or there is another of its name.")
            found[name] = getattr(loaded, name)
    return found
