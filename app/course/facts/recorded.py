"""Figures of the recorded examples (`assets/traces`), by the example's id, as measured when recorded."""

from __future__ import annotations

from functools import lru_cache

from app.metrics.numbers import measured_speedup
from app.records import examples as recorded
from specdec_core.record.trace import Trace

__all__ = [
    "acceptance_rate",
    "accepted",
    "judged",
    "measured",
    "most_tokens",
    "passes",
    "proposed",
    "rejected",
    "tau",
    "tokens",
    "unreached",
]


def accepted(example: str) -> int:
    """Accepted guesses."""
    return trace(example).stats.accepted


def rejected(example: str) -> int:
    """Rejected guesses."""
    return trace(example).stats.rejected


def judged(example: str) -> int:
    """Guesses that were accepted or rejected."""
    return accepted(example) + rejected(example)


def unreached(example: str) -> int:
    """Guesses after a rejected one."""
    return trace(example).stats.unreached


def proposed(example: str) -> int:
    """All guesses."""
    return trace(example).stats.proposed


def acceptance_rate(example: str) -> float:
    """α: accepted over judged guesses."""
    return accepted(example) / judged(example)


def tokens(example: str) -> int:
    """Committed tokens."""
    return trace(example).stats.tokens


def passes(example: str) -> int:
    """Target passes after the prefill."""
    return trace(example).stats.target_passes


def tau(example: str) -> float:
    """Tokens per target pass."""
    found = trace(example).stats.tokens_per_pass
    assert found is not None
    return found


def most_tokens(example: str) -> int:
    """The most tokens that one round committed."""
    return max(len(row.committed.token) for row in trace(example).rounds)


def measured(example: str) -> float:
    """The measured speedup over the plain lane of the same run.

    Raises:
        ValueError: if the example has no plain lane, or one too short to measure.
    """
    found = measured_speedup(trace(example, plain=True).stats, trace(example).stats)
    if found is None:
        raise ValueError(f"The example “{example}” was recorded without a plain lane to compare it with.")
    return found


@lru_cache(maxsize=64)
def trace(example: str, plain: bool = False) -> Trace:
    """A recorded lane: the one with the proposer, or its plain one.

    Raises:
        ValueError: one sentence, if no such example ships.
    """
    found = recorded.find(example)
    if found is None:
        known = ", ".join(each.id for each in recorded.examples())
        raise ValueError(f"There is no recorded example “{example}”. Choose one of: {known}.")
    name = found.files[0 if plain else -1]
    return Trace.from_json((recorded.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
