"""Grow after a fully accepted draft, shrink after any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from specdec_core.settings import MAX_DRAFT_LENGTH, Settings

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


class Heuristic(LengthPolicy):
    """γ + 2 after a draft that was accepted as a whole, γ − 1 after any other (transformers' schedule of that name).

    Finding fewer tokens than requested, as prompt lookup may,
    counts as a rejection.
    """

    name = "heuristic"
    title = "Grow and shrink"
    summary = (
        "Starts with γ, drafts two tokens more after a fully accepted draft and one fewer after any other. "
        "It learns only from whole rounds, so it lags wherever easy and hard passages alternate."
    )

    class Options(LengthPolicy.Options):
        most: int = Field(
            MAX_DRAFT_LENGTH,
            ge=1,
            le=MAX_DRAFT_LENGTH,
            description="γ never starts or grows above this.",
        )

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.current: int | None = None

    @classmethod
    def most(cls, settings: Settings) -> int:
        return int(cls.read_options(settings).most)

    def length(self, context: Context) -> int:
        if self.current is None:
            self.current = min(context.settings.draft_length, self.options.most)
        return self.current

    def observe(self, context: Context, outcome: Outcome) -> None:
        asked = min(context.length, context.room)
        if self.current is None or asked <= 0:
            return
        if len(outcome.path) >= asked:
            self.current = min(self.current + 2, self.options.most)
        else:
            self.current = max(1, self.current - 1)
