"""A family of models in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from specdec_core.engine.events import Finished
from specdec_core.foundations.errors import OtherTokenizer, SpecdecError
from specdec_core.models.tokens.chat import Prompt
from specdec_core.proposers import PROPOSERS, available
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_lessons.distilled import Report
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.lanes import about
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress, sweep

from .api import Ask, Card, Event, IsCancelled, LaneDone, OnPlace, pack, unplaced
from .models import ModelChoice

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.runtime.timing.width_curve import WidthCurve
    from specdec_measure.analysis.memory import MemoryLine
    from specdec_measure.analysis.surprise import Surprise

# proposer → tokens and options of its first decode, so that there are passes over one token and over five
WARM_UP: dict[str, tuple[int, dict[str, Any]]] = {
    "none": (4, {}),
    "draft-model": (12, {}),
    "eagle": (12, {"nodes": 4}),
}


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A `Family`. What needs torch is imported on use."""

    models: Models

    @property
    def card(self) -> Card:
        models = self.models
        config = getattr(getattr(models.target, "model", None), "config", None)
        return Card(
            target=models.target.info,
            draft=models.draft.info if models.draft else None,
            device=str(models.device),
            machine=models.machine,
            chat_template=models.chat_template,
            heads={
                name: sum(weight.numel() for weight in head.parameters())
                for name, head in models.heads.items()
            },
            missing={name: why for name, why in available(models).items() if why is not None},
            layers=getattr(config, "num_hidden_layers", None),
            generation=models.generation,
        )

    def race(
        self,
        prompt: Prompt,
        lanes: Sequence[Settings],
        *,
        cancelled: IsCancelled,
        ask: Ask,
        on_place: OnPlace = unplaced,
    ) -> Iterator[Event]:
        from specdec_core.engine.race import race

        for event in race(self.models, prompt, lanes, cancelled=cancelled, ask=ask):
            if isinstance(event, Finished):
                yield LaneDone(event.lane, event.end, event.stats, pack(event.trace.to_json().encode()))
            else:
                yield event

    def sweep(
        self,
        cases: Sequence[Case],
        lanes: Sequence[Settings],
        *,
        repeats: int,
        labels: Sequence[str],
        known: Sequence[MeasuredCase],
        cancelled: IsCancelled,
        on_progress: Callable[[SweepProgress], None],
    ) -> Iterator[MeasuredCase]:
        return sweep(
            self.models, cases, lanes, repeats=repeats, labels=labels, known=known,
            cancelled=cancelled, on_progress=on_progress,
        )  # fmt: skip

    def about(self, lanes: Sequence[Settings], labels: Sequence[str]) -> dict[str, Any]:
        return about(self.models, lanes, labels)

    def chat(self, message: str, system: str) -> tuple[str, int]:
        return self.models.chat_text(message, system), len(self.models.chat(message, system))

    def ledger(self, trace: Trace) -> list[MemoryLine]:
        from specdec_measure.analysis.memory import ledger

        return ledger(trace, self.models)

    def surprises(self, text: str) -> list[Surprise]:
        from specdec_measure.analysis.surprise import surprises

        return surprises(self.models, text)

    def width_curve(self, repeats: int, budget_s: float) -> WidthCurve:
        from specdec_core.runtime.timing.width_curve import width_curve

        return width_curve(self.models, repeats=repeats, budget_s=budget_s)

    def distil(self, kind: str, budget_s: float, *, cancelled: IsCancelled) -> Generator[Report, None, None]:
        from specdec_lessons.distilling import LiveTraining

        return LiveTraining(self.models, kind, budget_s, cancelled).run()


def load(choice: ModelChoice) -> Loaded:
    """Load a choice's models into this process.

    Raises:
        ModelError: one sentence, if they are unavailable.
    """
    from transformers.utils import logging

    import specdec_core as sd

    logging.disable_progress_bar()  # the page shows progress; keep it out of the log
    load_models = partial(sd.load_models, choice.target, device=choice.device, dtype=choice.dtype)
    try:
        models = load_models(choice.draft)
    except OtherTokenizer:
        models = load_models(foreign_draft=choice.draft)
    # The first pass of a process is slow and imports the rest, and what a pass of some width takes undisturbed must be
    # known before a browser disturbs it (`thread_tuner`); better here than in a visitor's first run. The bundled family
    # is quick and tries every proposer, others those that the lab begins with.
    for name, why in available(models).items():
        if (
            why is None
            and "person" not in PROPOSERS[name].needs
            and (choice.target is None or name in WARM_UP)
        ):
            length, options = WARM_UP.get(name, (4, {}))
            with suppress(SpecdecError):
                settings = Settings(proposer=name, max_new_tokens=length, options=options)
                sd.decode(models, "Once upon a time", settings)
    return Loaded(models)
