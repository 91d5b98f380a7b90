"""The keyword under which a module of transformers takes its KV cache: `past_key_values`, from release 5.24 on `cache`.

A wrong one is no error there: 5.23 swallows `cache=` and computes as if there were no text before.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from torch import nn

NAMES = ("past_key_values", "cache", "cache_params")  # the last is that of some recurrent models


def cached(module: nn.Module, cache: Any) -> dict[str, Any]:
    """The cache as the keyword argument that the module's forward takes.

    Raises:
        TypeError: if the forward takes a cache under no name that is known.
    """
    kind: Any = type(module)  # which torch types as not hashable
    return {_name(kind): cache}


@lru_cache(maxsize=256)
def _name(kind: Any) -> str:
    taken = inspect.signature(kind.forward).parameters
    for name in NAMES:
        if name in taken:
            return name
    raise TypeError(
        f"the forward of {kind.__name__} takes its cache under none of the names {', '.join(NAMES)}"
    )
