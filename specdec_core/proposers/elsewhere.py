"""A proposer in other programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counterpart:
    """The equivalent proposer of another program.

    Attributes:
        arguments: how it is requested there: arguments of `generate`, or vLLM's `speculative_config`.
        missing: sentences on what cannot be expressed there.
        drafts: whether a model drafts there, so that the draft length is set on the draft.
        tokenizers: whether `generate` needs both models' tokenizers (transformers).
        rule: the acceptance rule there above temperature 0; None where nothing is judged.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    drafts: bool = False
    tokenizers: bool = False
    rule: str | None = "speculative-sampling"
