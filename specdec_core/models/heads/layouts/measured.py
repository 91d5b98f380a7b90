"""What was measured of a head trained here, in its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdec_core.foundations.errors import ModelError

ACCURACY, TREE_TEMPERATURE = "specdec_accuracy", "specdec_tree_temperature"


def accuracy(config: Mapping[str, Any]) -> list[float] | None:
    """The measured shares of right guesses by rank, if the configuration has valid ones."""
    shares = config.get(ACCURACY)
    usable = isinstance(shares, list) and all(isinstance(share, int | float) for share in shares)
    return [float(share) for share in shares] if usable and isinstance(shares, list) else None


def written(shares: list[float] | None, temperature: float) -> dict[str, Any]:
    """What was measured of a head, for its configuration."""
    return {ACCURACY: shares} | ({} if temperature == 1.0 else {TREE_TEMPERATURE: temperature})


def tree_temperature(name: str, config: Mapping[str, Any]) -> float:
    """The temperature at which the head's probabilities choose the best trees for greedy text; 1 if not measured.

    Raises:
        ModelError: if it is no number from 0.1 to 10.
    """
    found = config.get(TREE_TEMPERATURE, 1.0)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0.1 <= found <= 10.0:
        raise ModelError(
            f"'{name}' has no usable '{TREE_TEMPERATURE}' in its config.json: it is a number from 0.1 to 10. Correct "
            "it or leave it out."
        )
    return float(found)
