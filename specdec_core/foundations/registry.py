"""Proposers, rules and length policies by name: each package lists its classes, one entry for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from specdec_core.foundations.errors import SettingsError, meant

Value = TypeVar("Value")


def table(package: str, entries: Iterable[str]) -> dict[str, Any]:
    """The classes that `entries` name as file.class or folder.file.class, by their `name`, in this order.

    Raises:
        ValueError: if a class has no name, or that of another.
    """
    found: dict[str, Any] = {}
    for entry in entries:
        file, _, kind = entry.rpartition(".")
        one = getattr(import_module(f".{file}", package), kind)
        name = getattr(one, "name", None)
        if name is None:
            raise ValueError(f"{package}.{entry} has no `name`: give it the one that settings choose it by.")
        if name in found:
            raise ValueError(
                f"{package}.{entry} and {found[name].__qualname__} are both named '{name}': rename one."
            )
        found[name] = one
    return found


def chosen(name: str, what: str, known: Mapping[str, Value]) -> Value:
    """The one of that name; `what` says what they are, such as "proposer".

    Raises:
        SettingsError: naming the known ones.
    """
    if name not in known:
        raise SettingsError(
            f"There is no {what} '{name}'.{meant(name, known)} Choose one of: {', '.join(known)}."
        )
    return known[name]
