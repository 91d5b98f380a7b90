"""The width curve of this machine, measured once and shared: the bundled models, in the queue of the runs.

Requests while one is being measured, or soon after, share its result.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from app import services
from app.decoding.jobs import Job
from app.decoding.models import ModelChoice

if TYPE_CHECKING:
    from specdec_core.runtime.timing.width_curve import WidthCurve

FRESH_S = 60.0  # a curve is not measured again for this long
BUDGET_S = 2.0


@dataclass(slots=True)
class Measuring:
    """The measurement of this process: the running or last job, and the last curve."""

    job: Job | None = None
    curve: WidthCurve | None = None
    _ended: float = 0.0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def active(self) -> bool:
        """Whether a curve is being measured."""
        return self.job is not None and self.job.active

    def begin(self) -> None:
        """Measure, unless a measurement is running or recent."""
        with self._guard:
            if self.active or (self.curve is not None and time.monotonic() - self._ended < FRESH_S):
                return
            self.job = job = Job()
            job.start(lambda: self._work(job))

    def _work(self, job: Job) -> None:
        models = services.shelf().get(ModelChoice())
        with job.turn(services.runs().line(models.card.device)):
            self.curve = models.width_curve(repeats=200, budget_s=BUDGET_S)
        self._ended = time.monotonic()


@cache
def here() -> Measuring:
    """The instance of this process."""
    return Measuring()
