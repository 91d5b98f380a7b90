"""Steps of a ladder, climbed and left by how many guesses were accepted of late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from specdec_core.settings import MAX_DRAFT_LENGTH, Settings

from .base import LengthPolicy

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


def _rising(steps: list[int]) -> list[int]:
    if sorted({*steps}) != steps:
        raise ValueError("the steps of a ladder rise, such as [1, 3, 5, 7]")
    return steps


Step = Annotated[int, Field(ge=1, le=MAX_DRAFT_LENGTH)]


class Ladder(LengthPolicy):
    """A moving average of the accepted guesses per round moves the length along a few given ones, as in SGLang's
    adaptive speculation: up where it exceeds the step less a half, down where it is below the step underneath less
    the hysteresis. One step at a time, every few rounds, and none at first. It follows from earlier rounds alone."""

    name = "ladder"
    title = "Ladder"
    summary = (
        "Moves along a few draft lengths by a moving average of how many guesses were accepted, as SGLang does. "
        "It knows nothing of what a pass costs here, and lags where easy and hard passages alternate."
    )

    WEIGHT = 0.2  # of the newest round in the average
    WARM_UP = 10  # rounds before the first move
    EVERY = 5  # rounds between moves
    HYSTERESIS = 0.25

    class Options(LengthPolicy.Options):
        steps: Annotated[list[Step], AfterValidator(_rising)] = Field(
            [1, 3, 5, 7],
            min_length=1,
            max_length=16,
            description="The draft lengths to choose from, rising; it starts with the shortest that is not below γ.",
        )

    def __init__(self, options: Any, resources: Resources | None = None) -> None:
        super().__init__(options, resources)
        self.at: int | None = None  # which step
        self.average = 0.0
        self.rounds = 0

    @classmethod
    def most(cls, settings: Settings) -> int:
        return int(max(cls.read_options(settings).steps))

    def length(self, context: Context) -> int:
        steps = self.options.steps
        if self.at is None:
            wanted = context.settings.draft_length
            self.at = next((at for at, step in enumerate(steps) if step >= wanted), len(steps) - 1)
            self.average = steps[self.at] - 1.0
        length: int = steps[self.at]
        return length

    def observe(self, context: Context, outcome: Outcome) -> None:
        if self.at is None or min(context.length, context.room) <= 0:
            return
        self.rounds += 1
        self.average += self.WEIGHT * (len(outcome.path) - self.average)
        if self.rounds <= self.WARM_UP or self.rounds % self.EVERY:
            return
        steps = self.options.steps
        if self.at + 1 < len(steps) and self.average > steps[self.at] - 0.5:
            self.at += 1
        elif self.at and self.average < steps[self.at - 1] - self.HYSTERESIS:
            self.at -= 1
