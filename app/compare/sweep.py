"""A sweep: many prompts through several lanes, cell by cell, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from app.decoding.jobs import Job
from app.decoding.models import ModelChoice
from specdec_core.settings import Settings
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress

UNSEEN_S = 600.0  # a sweep that no page has requested for this long stops


@dataclass(frozen=True, slots=True)
class Order:
    """What to sweep; lane 0 is plain decoding."""

    cases: tuple[Case, ...]
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    repeats: int
    choice: ModelChoice | None = None

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.cases) * len(self.lanes) * self.repeats


@dataclass(slots=True, eq=False, kw_only=True)
class Sweep(Job):
    """One sweep."""

    name: ClassVar[str] = "sweep"

    order: Order
    kind: str = "prompts"  # each owner has at most one running sweep of a kind
    patience_s: float = UNSEEN_S
    rows: list[MeasuredCase] = field(default_factory=list)
    ahead: SweepProgress | None = None
    about: dict[str, Any] = field(default_factory=dict)  # models, machine, versions, date
    measuring: float = 0.0  # seconds spent measuring cells since it was started or resumed
    measured: int = 0  # how many
    elsewhere: bool = False  # another web process measures it; this one shows what it has written
    stored: float = 0.0  # when it was last in the database, by `time.monotonic`; 0 if never

    @property
    def left_s(self) -> float | None:
        """Estimated seconds in all, from its cells so far; waiting in the queue comes on top."""
        if not self.measured:
            return None
        return self.measuring / self.measured * (self.order.cells - len(self.rows))

    def over(self) -> None:
        """It ended in another process."""
        self._over.set()
