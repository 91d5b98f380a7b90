"""Two owners, and a race stored in a library for one of them."""

from __future__ import annotations

from app.records.store import Library
from app.records.summary import Summary

ANNA, BEN = "anna" * 8, "ben0" * 8


def add(library: Library, kept: list[tuple[Summary, bytes]], whose: str = ANNA, **given: str | None) -> str:
    """Keep the race; returns its id."""
    return library.add(
        whose,
        given.pop("prompt", None) or "abc",
        kept,
        origin="measured",
        machine="this one",
        recorded="2026-11-21",
        **given,
    )
