"""The caller's half of a decoder in another process: what `local` and `serve` share.

How calls travel is the implementation's business; see `calls` for what answers them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from specdec_core.foundations import errors
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_lessons.distilled import Report
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress

from .api import Ask, Card, DecoderLost, Event, IsCancelled, OnPlace, unplaced
from .models import ModelChoice

if TYPE_CHECKING:
    from specdec_core.runtime.timing.width_curve import WidthCurve
    from specdec_measure.analysis.memory import MemoryLine
    from specdec_measure.analysis.surprise import Surprise

POLL_S = 0.02  # how often a waiting caller looks whether it was cancelled
DECODER_DIED = (
    "The decoder stopped unexpectedly and is starting again. "
    "What is stored is safe; press Run again in a moment."
)
KNOWN = 100  # answers that a family remembers
FAILED = "the decoder failed; its log has the details"

Answers = queue.SimpleQueue[tuple[str, Any]]


class Connected(Protocol):
    """What calls travel through."""

    def open(self, *call: Any) -> tuple[int, Answers]:
        """Start a call; its answers come into the queue."""
        ...

    def send(self, kind: str, number: int, *rest: Any) -> None:
        """Send a message to the call of this number."""
        ...

    def forget(self, number: int) -> None:
        """No more answers to this call are wanted."""
        ...

    def place(self, number: int) -> int:
        """How many of the calls known here have to end before this one begins; 0 once it has, or soon will have."""
        ...


class Caller:
    """Calls a decoder in another process."""

    def _running(self) -> Connected:
        raise NotImplementedError

    def call(self, operation: str, choice: ModelChoice, *args: Any, **kwargs: Any) -> Any:
        """One answer to one question.

        Raises:
            SpecdecError: as the operation does, or `DecoderLost`.
        """
        hooks: dict[str, Callable[..., Any]] = {
            name: kwargs.pop(name) for name in ("on_progress", "cancelled") if name in kwargs
        }
        return _last(self.stream(operation, choice, (args, kwargs), hooks))

    def stream(
        self,
        operation: str,
        choice: ModelChoice,
        given: tuple[Sequence[Any], dict[str, Any]],
        hooks: Mapping[str, Callable[..., Any]],
        paced: bool = False,
        on_place: OnPlace = unplaced,
    ) -> Generator[Any, None, Any]:
        """The items that the operation yields, then returns its result; see `calls` for hooks and `paced`.

        `on_place` receives the call's place while it waits for a decoder, and 0 afterwards.
        """
        running = self._running()
        number, answers = running.open(operation, choice, given, tuple(hooks), paced)
        cancelled, told, ended, place = hooks.get("cancelled", bool), False, False, 0
        try:
            if paced:
                running.send("more", number)
            while True:
                if not told and cancelled():
                    told = True
                    running.send("cancel", number)
                try:
                    kind, value = answers.get(timeout=POLL_S if "cancelled" in hooks else None)
                except queue.Empty:
                    kind, value = "", None
                if place != (now := 0 if kind else running.place(number)):
                    place = now
                    on_place(place)
                if kind == "":
                    continue
                if kind == "item":
                    yield value
                    if paced:
                        running.send("more", number)
                elif kind == "progress":
                    hooks["on_progress"](*value)
                elif kind == "ask":
                    running.send("words", number, hooks["ask"](value))
                else:
                    ended = True
                    return _result(kind, value)
        finally:
            running.forget(number)
            if not ended:
                running.send("cancel", number)


@dataclass(frozen=True, slots=True, eq=False)
class Remote:
    """A `Family` in another process."""

    decoder: Caller
    choice: ModelChoice
    card: Card
    _known: dict[Hashable, Any] = field(default_factory=dict)  # what a page asks for at every redraw

    def race(
        self,
        prompt: Prompt,
        lanes: Sequence[Settings],
        *,
        cancelled: IsCancelled,
        ask: Ask,
        on_place: OnPlace = unplaced,
    ) -> Iterator[Event]:
        hooks: dict[str, Callable[..., Any]] = {"cancelled": cancelled, "ask": ask}
        return self.decoder.stream("race", self.choice, ((prompt, list(lanes)), {}), hooks, on_place=on_place)

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
        given = (cases, lanes), {"repeats": repeats, "labels": labels, "known": known}
        hooks: dict[str, Callable[..., Any]] = {"cancelled": cancelled, "on_progress": on_progress}
        return self.decoder.stream("sweep", self.choice, given, hooks, paced=True)

    def about(self, lanes: Sequence[Settings], labels: Sequence[str]) -> dict[str, Any]:
        return cast(dict[str, Any], self.decoder.call("about", self.choice, lanes, labels))

    def chat(self, message: str, system: str) -> tuple[str, int]:
        return cast("tuple[str, int]", self._once((message, system), "chat", message, system))

    def ledger(self, trace: Trace) -> list[MemoryLine]:
        header = trace.header
        key = (header.created, str(header.settings), *header.prompt_ids, *trace.token_ids)
        return cast("list[MemoryLine]", self._once(key, "ledger", trace))

    def surprises(self, text: str) -> list[Surprise]:
        return cast("list[Surprise]", self.decoder.call("surprises", self.choice, text))

    def width_curve(self, repeats: int, budget_s: float) -> WidthCurve:
        return cast("WidthCurve", self.decoder.call("width_curve", self.choice, repeats, budget_s))

    def distil(self, kind: str, budget_s: float, *, cancelled: IsCancelled) -> Generator[Report, None, None]:
        hooks = {"cancelled": cancelled}
        return self.decoder.stream("distil", self.choice, ((kind, budget_s), {}), hooks, paced=True)

    def _once(self, key: Hashable, operation: str, *args: Any) -> Any:
        if key not in self._known:
            while len(self._known) >= KNOWN:
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = self.decoder.call(operation, self.choice, *args)
        return self._known[key]


def _last(answers: Iterator[Any]) -> Any:
    """What a stream without items returns."""
    try:
        next(answers)
    except StopIteration as end:
        return end.value
    raise AssertionError("one answer was expected")


def _result(kind: str, value: Any) -> Any:
    if kind == "end":
        return value
    if kind == "refused":
        name, text = value
        raise getattr(errors, name, errors.SpecdecError)(text)
    if kind == "lost":
        raise DecoderLost(value or DECODER_DIED)
    raise MemoryError(FAILED) if value else RuntimeError(FAILED)
