"""torch, imported when it is first used.

So the titles, options and flags of proposers, rules and policies can be read without it: the web process and
`--help` need no torch. Code that cannot do without torch at all imports it as usual.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
else:

    class _Torch:
        """Stands in for the module; a name looked up once becomes a plain attribute, as fast as the module's."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("torch"), name)
            setattr(self, name, value)
            return value

    torch = _Torch()

__all__ = ["torch"]
