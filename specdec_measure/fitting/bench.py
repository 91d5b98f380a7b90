"""One cell of a fit after the other: timed, kept, and within the time there is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from specdec_core.engine.decode import stream
from specdec_core.engine.events import Step
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase, fingerprint
from specdec_measure.sweep.run import time_cell

from .candidates import Candidate
from .state import FitCell, FitState, Stage

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.record.trace import Trace

log = logging.getLogger(__name__)

WARM_UP = 3  # untimed rounds of each candidate

Price = Callable[["Trace", Candidate], float]
"""Seconds that a recorded text would take among many requests; see `throughput`."""


class FitStopped(Exception):
    """The person pressed Ctrl+C, or the time of the fit is over."""


@dataclass(frozen=True, slots=True)
class FitProgress:
    """What is done next: the phase, in words, and seconds of the fit spent and in all."""

    phase: str
    words: str
    spent: float
    budget: float


@dataclass(slots=True)
class Clock:
    """Seconds of the fit, those of earlier sessions included."""

    budget: float
    before: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        return self.before + time.monotonic() - self.began

    @property
    def left(self) -> float:
        return self.budget - self.spent


@dataclass(slots=True)
class Bench:
    """Where candidates are measured.

    Attributes:
        views: the loaded models, by the part that a candidate decodes with.
        plain: plain decoding, measured in every turn.
        price: where the wish is throughput.
    """

    views: Mapping[str, Models]
    plain: Candidate
    state: FitState
    clock: Clock
    cancelled: Callable[[], bool]
    on_progress: Callable[[FitProgress], None]
    price: Price | None = None
    warm: set[str] = field(default_factory=set)

    def say(self, phase: str, words: str) -> None:
        """Report what comes next."""
        self.on_progress(FitProgress(phase, words, self.clock.spent, self.clock.budget))

    def turn(
        self,
        stage: Stage,
        case: Case,
        repeat: int,
        chosen: Sequence[Candidate],
        until: float,
        tokens: int = 0,
        first: int = 0,
    ) -> bool:
        """Measure plain decoding and the chosen candidates on one prompt; False if `until` (the fit's seconds) came
        first.

        What is in the state is not measured again.

        Args:
            first: which lane begins, counted on from plain decoding.
            tokens: how many are written, where fewer than the settings ask for are enough.

        Raises:
            Stopped: the current cell is dropped.
        """
        lanes = [self.plain, *chosen]
        for at in range(len(lanes)):
            lane = lanes[(at + first) % len(lanes)]
            key = (stage, lane.label, case.family, case.name, repeat)
            if key in self.state.cells:
                continue
            if self.clock.spent >= until:
                return False
            self.say(stage, f"{case.name}, {lane.label}")
            self.state.add(self._cell(stage, case, repeat, lane, tokens), self.clock.spent)
        return True

    def again(self, cell: FitCell, case: Case, lane: Candidate, tokens: int = 0) -> None:
        """Measure a cell once more and keep the faster run.

        Raises:
            Stopped: the cell stays as it is.
        """
        self.say(cell.stage, f"{case.name}, {lane.label}, once more")
        new = self._cell(cell.stage, case, cell.measured.repeat, lane, tokens)
        best = new if new.usable and new.seconds < cell.seconds else cell
        self.state.add(replace(best, runs=cell.runs + 1), self.clock.spent)

    def _cell(self, stage: Stage, case: Case, repeat: int, lane: Candidate, tokens: int) -> FitCell:
        if self.cancelled():
            raise FitStopped
        settings = lane.settings.but(record="off" if self.price is None else "tokens")
        if tokens:
            settings = settings.but(max_new_tokens=min(tokens, settings.max_new_tokens))
        models = self.views[lane.part]
        self._warm_up(models, case, lane)
        row = MeasuredCase(case.family, case.name, 0 if lane is self.plain else 1, lane.label, repeat)
        row.prompt_sha = fingerprint(case.asked)
        traces: list[Trace] = []
        if not time_cell(models, case.asked, settings, self.cancelled, row, traces.append):
            raise FitStopped
        price = self.price(traces[0], lane) if self.price and traces and traces[0].rounds else None
        return FitCell(stage, lane.label, row, price)

    def _warm_up(self, models: Models, case: Case, lane: Candidate) -> None:
        """A few rounds, as first passes are slow."""
        if lane.label in self.warm:
            return
        self.warm.add(lane.label)
        try:
            events = stream(models, case.asked, lane.settings, cancelled=self.cancelled)
            for _ in islice((event for event in events if isinstance(event, Step)), WARM_UP):
                pass
        except Exception:  # its cell reports it
            log.debug("a candidate could not be warmed up", exc_info=True)


def speeds(state: FitState, stages: Sequence[Stage], label: str) -> dict[tuple[str, str], float]:
    """By prompt, the median over repeats of a candidate's tokens per second over plain decoding's in the same turn."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for cell, other in pairs(state, stages, label):
        speed = cell.measured.tokens / cell.seconds
        place = (cell.measured.family, cell.measured.name)
        ratios.setdefault(place, []).append(speed / (other.measured.tokens / other.seconds))
    return {place: median(found) for place, found in ratios.items()}


def failures(state: FitState, label: str) -> list[str]:
    """The sentences of a candidate's cells that failed, each once."""
    return list(
        dict.fromkeys(
            cell.measured.error
            for cell in state.cells.values()
            if cell.candidate == label and cell.measured.error is not None
        )
    )


def pairs(
    state: FitState, stages: Sequence[Stage], label: str | None = None
) -> Iterator[tuple[FitCell, FitCell]]:
    """Usable runs of a candidate, or of all, each with plain decoding's in the same turn."""
    from specdec_core.proposers import proposer_class

    name = proposer_class("none").title
    for cell in state.cells.values():
        mine = cell.candidate != name if label is None else cell.candidate == label
        if mine and cell.stage in stages and cell.usable:
            other = state.cells.get((cell.stage, name, *cell.key[2:]))
            if other is not None and other.usable:
                yield cell, other
