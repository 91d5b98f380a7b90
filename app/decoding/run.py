"""One run as the page and its event stream see it: an append-only list of messages, and what its visitor can do."""

from __future__ import annotations

import copy
import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from specdec_core.engine.events import Ended, Started, Step
from specdec_core.models.tokens.chat import Branched, Chat
from specdec_core.record.schema import EndReason
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .api import Event, Family
from .archive import Archive
from .device_queue import DeviceQueue
from .jobs import Job, State

log = logging.getLogger(__name__)

AFTER_DEATH = (
    100_000_000  # the number of the first message after a run's process died: more than it can have said
)
STOPPED = "Stopped before it started."
ANSWER_S = 300.0  # a run whose visitor does not answer for this long ends
MAX_ANSWER = 500  # characters
ASKED_SHOWN = 400  # characters of the text so far that accompany a question


@dataclass(frozen=True, slots=True)
class Request:
    """A request: a prompt, the lanes to race it through, and their names, which say what each lane is.

    `names` are shorter ones, where there is little room; without them, `short` is `labels`. `branch`: where it goes on
    from another run, whose text up to there is the prompt; `trail`: the ids of the runs that led here, each with the
    text of the token that was forced after it.
    """

    prompt: str
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    choice: Any = None
    chat: bool = False  # wrap the prompt in the chat template, if the models have one
    system: str = ""
    names: tuple[str, ...] = field(default=(), compare=False)
    branch: Branched | None = None
    trail: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def short(self) -> tuple[str, ...]:
        """The lanes' names in heads and charts."""
        return self.names or self.labels


@dataclass(slots=True, eq=False, kw_only=True)
class Run(Job):
    """A prompt raced through several lanes.

    Args:
        key: opens it in an address in place of its id: the shared link through which its viewer came.
        ticket: identifies its owner's browser to the routes if it keeps no cookie; empty if it does.
        guest: whether it belongs to no visitor; no library keeps it.
        device: where it ran.
        templated: whether the prompt went through the chat template.
        unsaved: whether the library should keep it but could not.
        deleted: whether its owner deleted it.
        restored: whether it comes from the library, which does not keep messages.
        lost: which message is the first after its process died; None of a run whose process lives.
    """

    name: ClassVar[str] = "run"

    request: Request
    messages: list[str] = field(default_factory=list)
    ends: dict[int, EndReason] = field(default_factory=dict)
    key: str = ""
    ticket: str = ""
    guest: bool = False
    device: str = ""
    templated: bool = False
    unsaved: bool = False
    deleted: bool = False
    restored: bool = False
    lost: int | None = None
    archive: Archive = field(default_factory=Archive)
    _line: DeviceQueue | None = None  # where it waits
    _timed: bool = False  # whether its place is in that line
    _asked: float = 0.0  # when it was asked to stop
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _listeners: tuple[Callable[[], object], ...] = ()  # replaced, never changed
    _questions: int = 0
    _answer: str | None = ""  # None while a question is open

    @property
    def before(self) -> str:
        """What precedes the generated text: the prompt, separated from an answer by an empty line."""
        return self.request.prompt + ("\n\n" if self.request.chat and not self.request.branch else "")

    @property
    def finished(self) -> bool:
        """Whether no more messages will follow."""
        return not self.active

    @property
    def failed_midway(self) -> bool:
        """Whether it failed while it wrote: what it wrote is in its messages, and not every lane has a record."""
        return (
            self.error is not None
            and self.finished
            and len(self.ends) < len(self.request.lanes)
            and any(message.startswith('{"type":"step"') for message in self.messages)
        )

    @property
    def outcome(self) -> str:
        """How it ended, for the log."""
        if self.error and self.error != STOPPED:
            return f"error: {self.error}"
        if self.stopped:
            return f"stopped, {time.perf_counter() - self._asked:.3f} s after it was asked to"
        return ", ".join(self.ends.values()) or "nothing decoded"

    def cancel(self) -> None:
        """Request the run's end, which comes within one round."""
        if not self.stopped:
            self._asked = time.perf_counter()
            with self._changed:
                self._stop.set()
                self._changed.notify_all()

    def belongs_to(self, owner: str | None, ticket: str = "") -> bool:
        """Whether it belongs to this owner or has this ticket. A run without an owner belongs to nobody."""
        if self.owner is not None and owner is not None and hmac.compare_digest(owner, self.owner):
            return True
        return bool(self.ticket) and hmac.compare_digest(ticket.encode(), self.ticket.encode())

    def seen_by(self, link: str) -> Run:
        """The finished run for the viewer of this shared link; nothing in it reveals its id's address."""
        seen = copy.copy(self)
        seen.key, seen.ticket = link, ""
        return seen

    def compute(self, family: Family, line: DeviceQueue) -> None:
        """Race the lanes when it is this run's turn, then save the records.

        Raises:
            Cancelled: if it is to end before its turn.
        """
        request, self._line = self.request, line
        with self.turn(line) as ticket:

            def ask(text: str) -> str:
                self.state = "asking"
                with line.away(ticket, lambda: self.stopped):
                    words = self.ask(text)
                self.state = "running"
                return words

            self.templated = request.chat and family.card.chat_template and request.branch is None
            message = Chat(request.prompt, request.system) if self.templated else request.prompt
            prompt, computing = request.branch or message, len(request.lanes)
            events = family.race(
                prompt, request.lanes, cancelled=lambda: self.stopped, ask=ask, on_place=self.placed
            )
            for event in events:
                self.process(event)
                computing -= isinstance(event, Ended)
                if not computing:  # the device is free; a stopped race saves its records only now
                    break
            idle = time.perf_counter()
        self.state = "writing"
        if self.stopped:
            log.info("run %s computed no more %.4f s after it was asked to stop", self.id, idle - self._asked)
        for event in events:
            self.process(event)

    def queued(self, place: int) -> None:
        """Report its place in the queue, and the seconds until its turn where they can be told."""
        self._timed = True
        self.place = place
        self.publish(self._waiting())

    def _waiting(self) -> dict[str, Any]:
        wait_s = self._line.wait_s(self.place) if self._timed and self._line else None
        return {"type": "queued", "place": self.place} | (
            {} if wait_s is None else {"wait_s": round(wait_s, 1)}
        )

    @property
    def waiting(self) -> str | None:
        """Its place and wait as of now, encoded, for whoever waits long at one place; None if it does not wait."""
        return encoded(self._waiting()) if self.state == "queued" and self.place else None

    def placed(self, place: int) -> None:
        """It waits although it has its turn: fewer decoders are there than were expected, or others use them too."""
        self.state = "queued" if place else "running"
        self.place, self._timed = place, False  # that line is not the one whose turns were timed
        if place:
            self.publish(self._waiting())

    def ending(self, end: State) -> None:
        """Report to the page how it ended."""
        if end == "stopped" and self.state in ("loading", "queued"):
            self.error = STOPPED
        if self.error:
            self.publish({"type": "error", "message": self.error})
        self.publish({"type": "done"})

    def ask(self, text: str) -> str:
        """Wait on the worker's thread for the visitor's next words; returns nothing once the run is to end.

        A run whose visitor does not answer for `ANSWER_S` seconds ends.
        """
        with self._changed:
            self._questions += 1
            self._answer = None
            self.publish(
                {"type": "ask", "question": self._questions, "text": text[-ASKED_SHOWN:], "most": MAX_ANSWER}
            )
            self._changed.wait_for(lambda: self._answer is not None or self.stopped, timeout=ANSWER_S)
            words, self._answer = self._answer, ""
            self.publish({"type": "answered", "question": self._questions})
        if words is None and not self.stopped:
            self.error = f"No guess came for {ANSWER_S / 60:g} minutes, so the run ended. Its text is kept."
            self.cancel()
        return words or ""

    def answer(self, question: int, words: str) -> bool:
        """Accept the visitor's answer to an open question; returns whether it was open."""
        with self._changed:
            if self._answer is not None or question != self._questions or self.stopped:
                return False
            self._answer = words[:MAX_ANSWER]
            self._changed.notify_all()
            return True

    @property
    def traces(self) -> dict[int, Trace]:
        """The finished lanes' records."""
        found = {lane: self.archive.trace(self.trace_name(lane)) for lane in sorted(self.ends)}
        return {lane: trace for lane, trace in found.items() if trace is not None}

    def trace_name(self, lane: int) -> str:
        """The name of a lane's trace."""
        return f"{self.id}-{lane}"

    def trace_path(self, lane: int) -> str:
        """Where the lane's trace is served once it is finished."""
        # Shared links are served by the library, which numbers only the lanes that finished.
        name = f"{self.key}-{sorted(self.ends).index(lane)}" if self.key else self.trace_name(lane)
        return self._path(f"/traces/{name}.json")

    @property
    def events_path(self) -> str:
        """Where its messages are served."""
        return self._path(f"/runs/{self.id}/events")

    def _path(self, path: str) -> str:
        return f"{path}?ticket={self.ticket}" if self.ticket else path

    def publish(self, message: dict[str, Any]) -> None:
        """Append a message for the event stream."""
        self.messages.append(encoded(message))
        self._tell()

    @contextmanager
    def told(self, tell: Callable[[], object]) -> Iterator[None]:
        """Call `tell`, on any thread, whenever there are more messages."""
        self._listeners = (*self._listeners, tell)
        try:
            yield
        finally:
            self._listeners = tuple(other for other in self._listeners if other is not tell)

    def _tell(self) -> None:
        for tell in self._listeners:
            with suppress(RuntimeError):  # its event loop has been closed
                tell()

    def follow(self, said: Sequence[str], *, over: bool, lost: bool) -> None:
        """Add what the run has said in the process that computes it."""
        if lost:
            self.lost = len(self.messages) + len(said) - 2
        self.messages.extend(said)
        self._tell()
        for message in said:
            if message.startswith(('{"type":"finished"', '{"type":"error"')):
                content = json.loads(message)
                if content["type"] == "error":
                    self.error = content["message"]
                else:
                    self.ends[content["lane"]] = content["end"]
        if over and not self.finished:
            self.state = "done"
            self._over.set()

    def number(self, at: int) -> int:
        """The number by which a browser resumes after the message at this place.

        A run whose process died had perhaps said more than others know: its last words have higher numbers.
        """
        return at if self.lost is None or at < self.lost else AFTER_DEATH + at - self.lost

    def after(self, number: int) -> int:
        """The place of the first message after that number."""
        if self.lost is None:
            return number + 1
        return min(number + 1, self.lost) if number < AFTER_DEATH else self.lost + number - AFTER_DEATH + 1

    def process(self, event: Event) -> None:
        """Process one event of the race."""
        if isinstance(event, Started):
            self.publish({"type": "started", **_fields(event), "label": self.request.short[event.lane]})
        elif isinstance(event, Step):
            self.publish({"type": "step", **_fields(event)})
        elif not isinstance(event, Ended):
            self.archive.put(self.trace_name(event.lane), event.packed)
            self.ends[event.lane] = event.end
            stats = {**_fields(event.stats), "decode_s": event.stats.decode_s}
            self.publish(
                {
                    "type": "finished",
                    "lane": event.lane,
                    "end": event.end,
                    "stats": stats,
                    "trace": self.trace_path(event.lane),
                }
            )


def encoded(message: dict[str, Any]) -> str:
    """A message as the event stream has it."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


DONE = encoded({"type": "done"})


def _fields(item: Any) -> dict[str, Any]:
    """A flat dataclass with slots as a dictionary; `dataclasses.asdict` would copy every list."""
    return {name: getattr(item, name) for name in item.__slots__}
