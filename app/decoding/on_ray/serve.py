"""Decoders on Ray Serve: replicas on one machine or many, each with one race at a time; `cluster` says which there are.

Answers stream through Ray Serve; what is said to a call that is being answered goes through this process's mailbox. A
replica that dies ends its calls with `DecoderLost`, and Ray starts another in its place.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from typing import Any

from app.decoding.api import DecoderLost, IsCancelled
from app.decoding.calls import ENDING_KINDS, STOPPED
from app.decoding.models import ModelChoice
from app.decoding.remote import Answers, Caller, Remote
from specdec_core.foundations.errors import PromptError, SpecdecError
from specdec_core.models.tokens.chat import MAX_PROMPT_CHARACTERS, Chat
from specdec_core.proposers import PROPOSERS

from .cluster import Cluster, deploy, join, machines, shortage

log = logging.getLogger(__name__)

ON_ITS_WAY_S = 0.5  # a call that has not begun after this long waits for a replica
DEPLOYED_S = 120.0  # how long to wait for a cluster's applications
LOOK_S = 2.0  # how often a waiting call's chances are looked at
NO_ROOM_S = (
    30.0  # how long a call waits for a machine that a replica fits on, unless it can say that it waits
)
MISSING = "SPECDEC_DECODER=serve needs Ray Serve: install requirements-serve.txt, or unset it."
UNREACHED = (
    "The decoders' cluster cannot be reached; the server's log has the details. What is stored is safe."
)
FULL = (
    "All decoders are busy, and as many runs wait for one as this server takes. Try again in a moment; your prompt and "
    "settings are kept."
)
NO_ROOM = (
    "No machine of the decoders' cluster has room for another decoder; the server's log says what is missing"
)
CLOSED = "The server is shutting down."


@dataclass(slots=True)
class Open:
    """A call whose answers are wanted."""

    answers: Answers
    kind: str  # of the replicas that can answer it
    progresses: bool = False  # its caller shows a sentence meanwhile
    response: Any = None
    begun: bool = False  # a replica has it
    told: bool = False  # that none may come
    since: float = field(default_factory=time.monotonic)
    _guard: threading.Lock = field(default_factory=threading.Lock)


class Connection:
    """This process's connection to the cluster, and its calls.

    Raises:
        DecoderLost: if the cluster cannot be reached.
    """

    def __init__(self, cluster: Cluster, on_loss: Callable[[], None]) -> None:
        self._cluster, self._on_loss = cluster, on_loss
        self._numbers = count()
        self._calls: dict[int, Open] = {}
        self._handles: dict[str, Any] = {}
        self._mailbox: Any = None
        self._missing: str | None = None  # what the log was last told
        self._ready, self._closing = threading.Event(), threading.Event()
        # What Ray starts ends with the thread that started it, so that one lives as long as the connection.
        self._thread = threading.Thread(target=self._live, name="ray", daemon=True)
        self._thread.start()
        self._ready.wait()
        if not self._handles:
            raise DecoderLost(UNREACHED)

    def open(
        self, name: str, choice: ModelChoice, given: Any, hooks: tuple[str, ...], paced: bool
    ) -> tuple[int, Answers]:
        """Start a call; its answers come into the queue."""
        from .replica import model_id

        answers: Answers = queue.SimpleQueue()
        kind = "decoder" if name == "race" and not _asks(given) else "patient"
        number, call = next(self._numbers), Open(answers, kind, name == "prepare")
        try:
            _check_texts(given[0])
        except PromptError as error:
            answers.put(("refused", (type(error).__name__, str(error))))
            return number, answers
        call.response = (
            self._handles[kind]
            .options(multiplexed_model_id=model_id(choice))
            .answer.remote(self._mailbox, number, name, choice, given, hooks, paced)
        )
        self._calls[number] = call
        threading.Thread(
            target=self._receive, args=(number, call), name=f"call-{number}", daemon=True
        ).start()
        return number, answers

    def send(self, kind: str, number: int, *rest: Any) -> None:
        """Send a message to the call of this number; one that no replica has yet can only be cancelled."""
        call = self._calls.get(number)
        if call is None:  # answered meanwhile
            return
        if kind == "cancel" and not call.begun:
            self._give_up(call, STOPPED)
        self._mailbox.put.remote(number, kind, *rest)

    def _give_up(self, call: Open, sentence: str) -> None:
        """End a call that no replica has yet."""
        call.response.cancel()
        call.answers.put(("refused", (SpecdecError.__name__, sentence)))

    def forget(self, number: int) -> None:
        """Answers that still come are not missed."""

    def place(self, number: int) -> int:
        """A call's place among those of this process that wait; 0 for one that may just be on its way to a replica."""
        call = self._calls.get(number)
        if (
            call is None
            or call.begun
            or call.kind != "decoder"
            or time.monotonic() - call.since < ON_ITS_WAY_S
        ):
            return 0
        others = [other for earlier, other in list(self._calls.items()) if earlier < number]
        return 1 + sum(other.kind == call.kind and not other.begun for other in others)

    def ready(self, kind: str = "decoder") -> int:
        """How many replicas of a kind run in the cluster; each has loaded its families by then."""
        from ray import serve

        try:
            deployed = serve.status().applications[kind].deployments[kind]
        except Exception:  # the cluster is away, or has no such application yet
            return 0
        return int(deployed.replica_states.get("RUNNING", 0))

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._closing.set()
        self._thread.join(timeout=20)

    def _live(self) -> None:
        import ray

        try:
            join(self._cluster)
            if self._cluster.address is None:
                deploy(self._cluster)
            self._mailbox = ray.remote(_mailbox()).options(num_cpus=0, max_restarts=-1).remote()
            handles = {name: _handle(name) for name in ("decoder", "patient")}
            self._handles = {name: handle.options(stream=True) for name, handle in handles.items()}
        except OSError as error:
            log.error("Ray cannot be used: %s", error)
        except Exception:
            log.exception("Ray cannot be used")
        self._ready.set()
        while self._handles and not self._closing.wait(LOOK_S):
            try:
                self._look()
            except Exception as error:  # the cluster is away, and its calls end
                log.warning("Ray does not say which machines there are: %s", error)
        ray.shutdown()

    def _look(self) -> None:
        """If the cluster has no room for the replicas that calls wait for, tell the log once and each call.

        A machine may still come, so a call whose caller can show it waits on; the others end after a while.
        """
        waiting = [call for call in list(self._calls.values()) if not call.begun]
        missing = shortage(self._cluster, machines()) if waiting else None
        if missing is not None and missing != self._missing:
            log.error("%s", missing)
        self._missing = missing if waiting else self._missing
        running = {kind: self.ready(kind) for kind in {call.kind for call in waiting if missing}}
        for call in waiting:
            if running.get(call.kind) != 0:
                continue
            if call.progresses and not call.told:
                call.told = True
                call.answers.put(("progress", (None, NO_ROOM)))
            elif not call.progresses and time.monotonic() - call.since > NO_ROOM_S:
                self._give_up(call, f"{NO_ROOM}.")

    def _receive(self, number: int, call: Open) -> None:
        """Pass on a call's answers until the last one, whatever happens to its replica."""
        from ray.exceptions import RayActorError, TaskCancelledError
        from ray.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError

        kind, value = "lost", None
        try:
            for kind, value in call.response:
                if kind == "begun":
                    call.begun = True
                elif kind not in ENDING_KINDS:
                    call.answers.put((kind, value))
            if kind not in ENDING_KINDS:
                kind, value = "lost", None
        except BackPressureError:
            kind, value = "refused", (SpecdecError.__name__, FULL)
        except (TaskCancelledError, RequestCancelledError):
            kind, value = "refused", (SpecdecError.__name__, STOPPED)
        except (RayActorError, RayServeException):
            kind, value = "lost", None
            self._on_loss()
        except Exception:
            log.exception("call %d failed", number)
            kind, value = "failed", False
        del self._calls[number]
        call.answers.put((kind, value))
        if not self._closing.is_set():  # else the mailbox ends with the connection
            self._mailbox.close.remote(number)


class Serve(Caller):
    """The cluster's decoders."""

    def __init__(self, cluster: Cluster) -> None:
        """Connects at the first call.

        Raises:
            ValueError: one sentence, if Ray is not installed.
        """
        if find_spec("ray") is None:
            raise ValueError(MISSING)
        self._cluster = cluster
        self._connection: Connection | None = None
        self._connecting = threading.Lock()
        self._closed = False
        self._lost = 0

    @property
    def places(self) -> int:
        """How many races can compute at once."""
        return self._cluster.most

    def load(self, choice: ModelChoice) -> Remote:
        """Load a choice's models on a replica; the others load them with their first race.

        Raises:
            ModelError: one sentence, if they are unavailable.
        """
        return Remote(self, choice, self.call("load", choice))

    def drop(self, choice: ModelChoice) -> None:
        """Replicas unload what they use least when they need the place."""

    def fetch(
        self, name: str, most: int, on_progress: Callable[[int, int], None], cancelled: IsCancelled
    ) -> None:
        """Download what a name needs, of at most so many bytes, reporting the bytes so far and in all."""
        self.call("fetch", ModelChoice(), name, most, on_progress=on_progress, cancelled=cancelled)

    def prepare(self, choice: ModelChoice, on_progress: Callable[[float | None, str], None]) -> None:
        """Convert what a choice needs and a replica only has as a GGUF file; usually there is nothing to do."""
        self.call("prepare", ModelChoice(), choice, on_progress=on_progress)

    def needs(self, choice: ModelChoice) -> tuple[str, bool]:
        """What a choice's models need of a replica's memory, and whether that fits."""
        found: tuple[str, bool] = self.call("needs", ModelChoice(), choice)
        return found

    def inspect(self, name: str) -> dict[str, Any]:
        """What is in the files of a model or a head."""
        found: dict[str, Any] = self.call("inspect", ModelChoice(), name)
        return found

    def lost(self) -> int:
        """How many calls of this process lost their replica."""
        return self._lost

    def ready(self) -> int:
        """How many decoders of the cluster run; 0 before the first call has connected to it."""
        return self._connection.ready() if self._connection else 0

    def close(self) -> None:
        """Leave the cluster, and join no other."""
        with self._connecting:
            self._closed = True
            if self._connection:
                self._connection.close()

    def _running(self) -> Connection:
        with self._connecting:
            if self._closed:
                raise DecoderLost(CLOSED)
            if self._connection is None:
                self._connection = Connection(self._cluster, self._on_loss)
            return self._connection

    def _on_loss(self) -> None:
        self._lost += 1


def _asks(given: Any) -> bool:
    """Whether a race needs its visitor's words."""
    return any("person" in PROPOSERS[lane.proposer].needs for lane in given[0][1])


def _check_texts(arguments: Any) -> None:
    """Refuse a prompt that no replica would read, before it travels."""
    for given in arguments:
        text = given.message if isinstance(given, Chat) else given
        if isinstance(text, str) and len(text) > MAX_PROMPT_CHARACTERS:
            raise PromptError(
                f"The prompt has {len(text):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are read. Shorten it."
            )


def _mailbox() -> Any:
    from .replica import Mailbox

    return Mailbox


def _handle(name: str) -> Any:
    """The handle of an application, which another process may still be deploying."""
    from ray import serve

    deadline = time.monotonic() + DEPLOYED_S
    while name not in serve.status().applications:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the cluster has no application {name!r}: python -m app.decoding.on_ray.cluster deploys it"
            )
        time.sleep(0.5)
    return serve.get_app_handle(name)
