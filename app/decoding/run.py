"""One run as the page and its event stream see it: an append-only list of messages, and what its visitor can do.

Nothing here imports streamlit. Whoever holds the object owns the run: `cancel()` ends its work within one round.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from specdec_core.engine.events import Ended, Event, Started, Step
from specdec_core.record.schema import EndReason
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .archive import Archive

# asking: for its visitor's next words; writing: up its record. In both nothing computes and the device is free.
State = Literal["loading", "queued", "running", "asking", "writing", "done"]
ANSWER_S = 300.0  # a run whose visitor says nothing for this long ends
MAX_ANSWER = 500  # characters
ASKED_SHOWN = 400  # characters of the text so far that go along with a question


@dataclass(frozen=True, slots=True)
class Request:
    """What a visitor asked for: a prompt, the lanes to race it through, and what the lanes are called."""

    prompt: str
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    choice: Any = None
    chat: bool = False  # wrap the prompt in the chat template, if the models have one
    system: str = ""


@dataclass(slots=True, eq=False)
class Run:
    """One run as the page and the event stream see it. Only its worker writes to it."""

    id: str
    request: Request
    state: State = "loading"
    messages: list[str] = field(default_factory=list)
    ends: dict[int, EndReason] = field(default_factory=dict)
    error: str | None = None
    place: int = 0
    device: str = ""
    owner: str | None = None  # whose library keeps it; None: nobody's
    templated: bool = False  # whether the prompt went through the chat template
    unkept: bool = False  # whether the library should keep it and could not
    _stop: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)
    _asked: float = 0.0
    _heard: threading.Condition = field(default_factory=threading.Condition)
    _questions: int = 0
    _answer: str | None = ""  # None while a question is open
    _computing: int = 0  # lanes
    _archive: Archive = field(default_factory=Archive)

    @property
    def before(self) -> str:
        """What stands before the text that is written: the prompt, apart from an answer to it by an empty line."""
        return self.request.prompt + ("\n\n" if self.request.chat else "")

    @property
    def finished(self) -> bool:
        """Whether nothing more will be told."""
        return self._done.is_set()

    @property
    def stopped(self) -> bool:
        """Whether somebody asked it to end early."""
        return self._stop.is_set()

    def cancel(self) -> None:
        """Ask the run to end; it does within one round."""
        if not self._stop.is_set():
            self._asked = time.perf_counter()
            with self._heard:
                self._stop.set()
                self._heard.notify_all()

    def ask(self, text: str) -> str:
        """Wait on the worker's thread for the visitor's next words; nothing once the run is to end.

        A visitor who says nothing for `ANSWER_S` seconds ends the run.
        """
        with self._heard:
            self._questions += 1
            self._answer = None
            self.tell(
                {"type": "ask", "question": self._questions, "text": text[-ASKED_SHOWN:], "most": MAX_ANSWER}
            )
            self._heard.wait_for(lambda: self._answer is not None or self.stopped, timeout=ANSWER_S)
            words, self._answer = self._answer, ""
            self.tell({"type": "answered", "question": self._questions})
        if words is None and not self.stopped:
            self.error = f"No guess came for {ANSWER_S / 60:g} minutes, so the run ended. Its text is kept."
            self.cancel()
        return words or ""

    def answer(self, question: int, words: str) -> bool:
        """Take the visitor's answer to an open question; whether it was open."""
        with self._heard:
            if self._answer is not None or question != self._questions or self.stopped:
                return False
            self._answer = words[:MAX_ANSWER]
            self._heard.notify_all()
            return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        return self._done.wait(timeout)

    @property
    def traces(self) -> dict[int, Trace]:
        """The finished lanes' records."""
        found = {lane: self._archive.trace(self.trace_name(lane)) for lane in sorted(self.ends)}
        return {lane: trace for lane, trace in found.items() if trace is not None}

    def trace_name(self, lane: int) -> str:
        """What a lane's trace is called."""
        return f"{self.id}-{lane}"

    def trace_path(self, lane: int) -> str:
        """Where the lane's trace is served once it is finished."""
        return f"/traces/{self.trace_name(lane)}.json"

    def tell(self, message: dict[str, Any]) -> None:
        """Append one message for the event stream."""
        self.messages.append(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    def hear(self, event: Event) -> None:
        """Take in one event of the race."""
        if isinstance(event, Started):
            self.tell({"type": "started", **_fields(event), "label": self.request.labels[event.lane]})
        elif isinstance(event, Step):
            self.tell({"type": "step", **_fields(event)})
        elif isinstance(event, Ended):
            self._computing -= 1
        else:
            self._archive.put(self.trace_name(event.lane), event.trace)
            self.ends[event.lane] = event.end
            stats = {**_fields(event.stats), "decode_s": event.stats.decode_s}
            self.tell(
                {
                    "type": "finished",
                    "lane": event.lane,
                    "end": event.end,
                    "stats": stats,
                    "trace": self.trace_path(event.lane),
                }
            )


def _fields(item: Any) -> dict[str, Any]:
    """A flat dataclass with slots as a dictionary; `dataclasses.asdict` would copy every list."""
    return {name: getattr(item, name) for name in item.__slots__}
