"""What a recorded call of transformers' `generate` asks for, checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdec_core.foundations.errors import SettingsError
from specdec_core.settings import MAX_DRAFT_LENGTH, Settings


def asked(max_new_tokens: int, seed: int, options: Mapping[str, Any]) -> Settings:
    """What a call of `generate` asks for, checked before anything is loaded or run.

    Raises:
        SettingsError: with one sentence.
    """
    sampled = bool(options.get("do_sample"))
    settings = Settings(max_new_tokens=max_new_tokens, seed=seed, stop=stops(options.get("stop_strings")))
    temperature = options.get("temperature")
    if sampled and temperature is not None and Settings(temperature=temperature).temperature == 0:
        raise SettingsError(
            "Sampling needs a temperature of at least 0.01, got 0. Leave do_sample out for greedy text."
        )
    lookup = options.get("prompt_lookup_num_tokens")
    if lookup is not None and not (isinstance(lookup, int) and 1 <= lookup <= MAX_DRAFT_LENGTH):
        raise SettingsError(
            f"Prompt lookup proposes 1 to {MAX_DRAFT_LENGTH} tokens a round, got {lookup!r}. Choose a number of these."
        )
    return settings


def stops(given: object) -> Any:
    """`stop_strings` as a setting: transformers takes one text as well as several."""
    return (given,) if isinstance(given, str) else given or ()
