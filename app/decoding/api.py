"""The seam to the decoder: what the app asks of loaded models, wherever they are loaded. Without torch.

`loaded` answers in this process; `local` in a child process; `serve` on replicas of a cluster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from specdec_core.engine.events import Ended, Started, Step
from specdec_core.foundations.errors import SpecdecError
from specdec_core.models.generation import Generation
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.schema import EndReason, ModelInfo, Stats
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_lessons.distilled import Report
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress

if TYPE_CHECKING:
    from specdec_core.runtime.timing.width_curve import WidthCurve
    from specdec_measure.analysis.memory import MemoryLine
    from specdec_measure.analysis.surprise import Surprise

    from .models import ModelChoice


class DecoderLost(SpecdecError):
    """The decoder's process ended during a call; its text can be shown."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a loaded family.

    Attributes:
        device, machine: where it runs, as in a trace.
        chat_template: whether prompts can be wrapped in a chat template.
        heads: the parameters of its trained heads, by the name of their proposer.
        missing: each proposer that cannot run with it, and why.
        layers: of the target; None where that is unknown.
        generation: what the target's generation config requests.
    """

    target: ModelInfo
    draft: ModelInfo | None
    device: str
    machine: str
    chat_template: bool
    heads: Mapping[str, int]
    missing: Mapping[str, str]
    layers: int | None
    generation: Generation


@dataclass(frozen=True, slots=True)
class LaneDone:
    """A lane is done. `packed` is its record; see `pack`."""

    lane: int
    end: EndReason
    stats: Stats
    packed: bytes


Event = Started | Step | Ended | LaneDone
IsCancelled = Callable[[], bool]
Ask = Callable[[str], str]
OnPlace = Callable[[int], None]


def unplaced(_place: int) -> None:
    """Nobody wants to know."""


class Family(Protocol):
    """Models that are loaded together.

    Every method raises SpecdecError with one sentence where the core does, and `DecoderLost` if the decoder's process
    ends meanwhile; the next call finds a new process, which loads the models again.
    """

    @property
    def card(self) -> Card: ...

    def race(
        self,
        prompt: Prompt,
        lanes: Sequence[Settings],
        *,
        cancelled: IsCancelled,
        ask: Ask,
        on_place: OnPlace = unplaced,
    ) -> Iterator[Event]:
        """As `specdec_core.race`. While no decoder is free, `on_place` receives how many races, of those known here,
        have to end first, and 0 once one has begun it."""
        ...

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
        """As `specdec_measure.sweep`; computes only while a row is waited for."""
        ...

    def about(self, lanes: Sequence[Settings], labels: Sequence[str]) -> dict[str, Any]:
        """The context of a sweep's rows."""
        ...

    def chat(self, message: str, system: str) -> tuple[str, int]:
        """What the model reads of a message: the text in its chat template, and how many tokens that is."""
        ...

    def ledger(self, trace: Trace) -> list[MemoryLine]:
        """What the lane that wrote this record holds in memory."""
        ...

    def surprises(self, text: str) -> list[Surprise]:
        """How much each token of a text surprises the models."""
        ...

    def width_curve(self, repeats: int, budget_s: float) -> WidthCurve:
        """How long a pass takes, by its width."""
        ...

    def distil(self, kind: str, budget_s: float, *, cancelled: IsCancelled) -> Generator[Report, None, None]:
        """Train a draft on what the target writes of this kind; computes only while a report is waited for."""
        ...


class Decoders(Protocol):
    """Where families are loaded. Each method raises SpecdecError with one sentence."""

    @property
    def places(self) -> int:
        """How many races can compute at once on a device of the same name."""
        ...

    def load(self, choice: ModelChoice) -> Family:
        """Load a choice's models."""
        ...

    def drop(self, choice: ModelChoice) -> None:
        """They are no longer needed."""
        ...

    def fetch(
        self, name: str, most: int, on_progress: Callable[[int, int], None], cancelled: IsCancelled
    ) -> None:
        """Download what a name needs, of at most so many bytes, reporting the bytes so far and in all."""
        ...

    def prepare(self, choice: ModelChoice, on_progress: Callable[[float | None, str], None]) -> None:
        """Convert what a choice needs, reporting the progress (0 to 1, or None) and the current step."""
        ...

    def needs(self, choice: ModelChoice) -> tuple[str, bool]:
        """What a choice needs of the memory and what is free, as a sentence, and whether that fits; before loading."""
        ...

    def inspect(self, name: str) -> dict[str, Any]:
        """What is in the files of a model or a head, as `specdec_measure.inspect.Report` has it."""
        ...

    def lost(self) -> int:
        """How often a decoder died."""
        ...

    def ready(self) -> int:
        """How many decoders run and have loaded models: a run that comes now is theirs, if need be after another."""
        ...

    def close(self) -> None:
        """End what was started here."""
        ...


def pack(record: bytes) -> bytes:
    """A record's JSON, compressed: 1 MB where the objects of 1,000 tokens take 20."""
    return zlib.compress(record, level=1)


def unpack(packed: bytes) -> bytes:
    """The JSON of a packed record."""
    return zlib.decompress(packed)
