"""The order in which options are offered: each visitor's own, and the same at every visit.

So neither a position nor a neighbour's answer says which option is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from app.records import visitor

PAPER = "paper"  # whose order is printed: one class, one sheet


def mine(names: Iterable[str], where: str) -> list[str]:
    """The options of a question, by its name, in this visitor's order."""
    return order(names, where, visitor.of_session())


def order(names: Iterable[str], where: str, whose: str) -> list[str]:
    """The options in somebody's order."""
    return sorted(names, key=lambda name: sha256(f"{whose}|{where}|{name}".encode()).digest())
