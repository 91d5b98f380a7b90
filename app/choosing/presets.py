"""Lookup of the prompts that ship with the app."""

from __future__ import annotations

from specdec_measure.sweep.cases import ORDER, Audience, Family, Preset, families

__all__ = ["ORDER", "Audience", "Family", "Preset", "families", "find", "kind", "matching", "offered"]


def offered(audience: Audience) -> tuple[Family, ...]:
    """The families of prompts for such models."""
    return tuple(family for family in families() if family.audience == audience)


def find(preset_id: str | None) -> Preset | None:
    """The preset with that id."""
    return next((item for family in families() for item in family.presets if item.id == preset_id), None)


def kind(text: str) -> Family | None:
    """The family whose prompts include this exact text."""
    return next((family for family in families() if any(item.text == text for item in family.presets)), None)


def matching(text: str) -> Preset | None:
    """The preset with this exact text."""
    return next((item for family in families() for item in family.presets if item.text == text), None)
