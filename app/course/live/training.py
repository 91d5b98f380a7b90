"""Drafts that visitors train: jobs in the line of the runs, one per visitor.

A training gives the device back after every slice of a second or two, so that nobody's run waits for more.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from app import services
from app.decoding.device_queue import Cancelled
from app.decoding.jobs import Job, Jobs
from app.decoding.models import ModelChoice
from specdec_lessons.distilled import Distilled, Report, Standing

BUDGET_S = 60.0  # of computing; the race comes on top
ACTIVE = 4  # at the same time
UNSEEN_S = 30.0  # one that no page shows for so long ends


@dataclass(slots=True, eq=False, kw_only=True)
class Training(Job):
    """One training: its last report, its scored reports, and the trained draft once it is there."""

    name: ClassVar[str] = "training"

    kind: str
    patience_s: float = UNSEEN_S
    machine: str = ""
    last: Standing | None = None
    scored: list[Standing] = field(default_factory=list)
    result: Distilled | None = None

    def receive(self, report: Report) -> None:
        """The next report."""
        if isinstance(report, Distilled):
            self.result = report
            return
        self.last = report
        if report.score is not None:
            self.scored.append(report)


class Trainings:
    """The trainings of this process: those that run, and each visitor's last."""

    def __init__(self) -> None:
        self._jobs: Jobs[Training] = Jobs(keep=1, group=lambda job: job.owner)

    def of(self, owner: str) -> Training | None:
        """The visitor's newest training."""
        return next((job for job in reversed(self._jobs.all()) if job.owner == owner), None)

    def begin(self, kind: str, owner: str) -> Training:
        """Train a draft; while the visitor's last one is being trained, that one is returned.

        Raises:
            Busy: if too many are being trained.
        """
        last = self.of(owner)
        if last is not None and last.active:
            return last
        job = Training(owner=owner, kind=kind)
        self._jobs.admit(job, _full)
        job.start(lambda: _work(job))
        return job

    def close(self) -> None:
        """End everything."""
        self._jobs.close()


def _full(others: Iterable[Training]) -> str | None:
    if sum(other.active for other in others) < ACTIVE:
        return None
    return f"{ACTIVE} drafts are being trained on this server at the moment. Try again in a few minutes."


def _work(job: Training) -> None:
    models = services.shelf().get(ModelChoice(), lambda: job.stopped)
    job.machine = models.card.machine
    line = services.runs().line(models.card.device)
    with closing(models.distil(job.kind, BUDGET_S, cancelled=lambda: job.stopped)) as reports:
        while True:
            with job.turn(line):
                report = next(reports, None)
            if report is None:
                break
            job.receive(report)
    if job.result is None:  # it was cancelled
        raise Cancelled


@cache
def trainings() -> Trainings:
    """The instance of this process."""
    return Trainings()
