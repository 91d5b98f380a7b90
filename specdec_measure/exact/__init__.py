"""The exact distribution of what a rule writes, by enumeration over toy vocabularies."""

from .distribution import (
    departure,
    distance,
    expected_accepted,
    output_distribution,
    target_distribution,
    total_variation,
)

__all__ = [
    "departure",
    "distance",
    "expected_accepted",
    "output_distribution",
    "target_distribution",
    "total_variation",
]
