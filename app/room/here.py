"""The rooms of this process."""

from __future__ import annotations

from functools import cache

from app import services

from .live import Live
from .runs import running
from .store import Rooms


@cache
def rooms() -> Rooms:
    """The rooms in the database."""
    return Rooms(services.database())


@cache
def live() -> Live:
    """Who follows them here."""
    return Live(rooms, running.said)
