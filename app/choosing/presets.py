"""Lookup of the prompts that ship with the app."""

from __future__ import annotations

from specdec_measure.sweep.cases import ORDER, Audience, PromptFamily, PromptPreset, families

__all__ = [
    "ORDER",
    "Audience",
    "PromptFamily",
    "PromptPreset",
    "families",
    "find",
    "kind",
    "matching",
    "offered",
]


def offered(audience: Audience) -> tuple[PromptFamily, ...]:
    """The families of prompts for such models."""
    return tuple(family for family in families() if family.audience == audience)


def find(preset_id: str | None) -> PromptPreset | None:
    """The preset with that id."""
    return next((item for family in families() for item in family.presets if item.id == preset_id), None)


def kind(text: str) -> PromptFamily | None:
    """The family whose prompts include this exact text."""
    return next((family for family in families() if any(item.text == text for item in family.presets)), None)


def matching(text: str) -> PromptPreset | None:
    """The preset with this exact text."""
    return next((item for family in families() for item in family.presets if item.text == text), None)
