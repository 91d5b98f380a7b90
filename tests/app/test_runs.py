"""Runs: one at a time per device, the others in a bounded line, cancelled within a round, errors as sentences."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from app.decoding.api import Event, LaneDone, pack
from app.decoding.archive import Archive
from app.decoding.jobs import Busy
from app.decoding.remote import Caller, Remote
from app.decoding.run import Request, Run
from app.decoding.runs import CurrentRun, Runs
from app.web import routes
from specdec_core.engine.events import Ended, Started, Step
from specdec_core.foundations.errors import PromptError
from specdec_core.record.schema import EndReason
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

WAIT = 20.0


class Gate:
    """A race whose rounds happen when the test says so, and that notes who computes."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.go = threading.Semaphore(0)
        self.order: list[str] = []
        self.computing = 0
        self.most = 0
        self.rounds = 0
        self.trace = trace
        self.writing = threading.Semaphore(0)  # a stopped race writes its record up when the test says so

    def __call__(
        self, prompt: str, lanes: Sequence[Settings], *, cancelled: Callable[[], bool], **_: Any
    ) -> Iterator[Event]:
        self.order.append(prompt)
        self.computing += 1
        self.most = max(self.most, self.computing)
        try:
            yield Started(0, "none", "speculative-sampling", 3, 0.01)
            while not cancelled():
                if self.go.acquire(timeout=0.01):
                    self.rounds += 1
                    yield Step(
                        0, 0, 0.1, [1], ["a"], ["plain"], [-1, 0], ["a", "b"], ["accepted", "rejected"], 1
                    )
                    if self.trace:
                        yield Ended(0, "length")
                        yield recorded(self.trace)
                    return
        finally:
            self.computing -= 1
        yield Ended(0, "cancelled")
        if self.trace:
            self.writing.acquire()
            yield recorded(self.trace, "cancelled")


def recorded(trace: Trace, end: EndReason = "length") -> LaneDone:
    return LaneDone(0, end, trace.stats, pack(trace.to_json().encode()))


def family(race: Any, device: str = "cpu") -> Any:
    return SimpleNamespace(card=SimpleNamespace(device=device, chat_template=False), race=race)


def request(prompt: str = "p") -> Request:
    return Request(prompt, (Settings(proposer="none"),), ("Plain decoding",))


def make(race: Any, **limits: int) -> Runs:
    return Runs(lambda choice, gone: family(race), **limits)


def messages(run: Run) -> list[dict[str, Any]]:
    return [json.loads(message) for message in run.messages]


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not fact():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def test_runs_compute_one_at_a_time_in_the_order_they_came_and_receive_their_place() -> None:
    race = Gate()
    runs = make(race)
    started = []
    for name in "abc":
        started.append(runs.start(request(name)))
        until(
            lambda: (
                started[-1].state in ("queued", "running") and (len(started) == 1 or started[-1].place > 0)
            )
        )
    assert [run.place for run in started] == [0, 1, 2]
    for run in started:
        until(lambda run=run: run.state == "running")
        if run is started[1]:
            until(lambda: started[2].place == 1)
        race.go.release()
        assert run.wait(WAIT)
    assert race.order == ["a", "b", "c"]
    assert race.most == 1
    assert [message["place"] for message in messages(started[2]) if message["type"] == "queued"] == [2, 1]


def test_two_devices_compute_side_by_side() -> None:
    race = Gate()
    runs = Runs(lambda choice, gone: family(race, choice))
    pair = [runs.start(Request("p", (Settings(),), ("x",), choice=device)) for device in ("cpu", "cuda")]
    until(lambda: race.computing == 2)
    runs.close()
    assert all(run.wait(WAIT) for run in pair)


def test_a_full_line_refuses_with_a_sentence_and_takes_in_again_later() -> None:
    race = Gate()
    runs = make(race, waiting=2)
    taken = [runs.start(request()) for _ in range(3)]
    with pytest.raises(Busy, match="2 runs are waiting already"):
        runs.start(request())
    taken[1].cancel()
    assert taken[1].wait(WAIT)
    runs.start(request())
    runs.close()


def test_a_cancelled_run_ends_within_a_round() -> None:
    race = Gate()
    runs = make(race)
    run = runs.start(request())
    until(lambda: race.computing == 1)
    run.cancel()
    assert run.wait(WAIT)
    assert race.rounds == 0
    assert race.computing == 0
    assert messages(run)[-1] == {"type": "done"}


def test_a_cancelled_run_frees_the_device_before_its_record_is_written_up(race_traces: list[Trace]) -> None:
    race = Gate(race_traces[0])
    runs = make(race)
    first, second = runs.start(request("first")), runs.start(request("second"))
    until(lambda: second.place == 1)
    first.cancel()
    until(lambda: race.order == ["first", "second"])
    assert first.state == "writing"
    assert not first.finished
    race.writing.release()
    assert first.wait(WAIT)
    assert first.ends == {0: "cancelled"}
    second.cancel()
    race.writing.release()
    assert second.wait(WAIT)


def test_a_run_cancelled_in_line_leaves_it_and_never_computes() -> None:
    """Catches: a page that stays empty, without a word, after a run was stopped in the line."""
    race = Gate()
    runs = make(race)
    first, second = runs.start(request("first")), runs.start(request("second"))
    until(lambda: second.place == 1)
    second.cancel()
    assert second.wait(WAIT)
    assert race.order == ["first"]
    assert messages(second)[-2:] == [
        {"type": "error", "message": "Stopped before it started."},
        {"type": "done"},
    ]
    first.cancel()
    assert first.wait(WAIT)


def test_a_desk_has_one_run_and_ends_it_when_it_is_closed() -> None:
    race = Gate()
    desk = CurrentRun(make(race))
    first = desk.start(request())
    second = desk.start(request())
    assert first.wait(WAIT)
    until(lambda: race.computing == 1)
    desk.close()
    assert second.wait(WAIT)
    with pytest.raises(Busy, match="lost its connection"):
        desk.start(request())


def test_an_error_of_the_core_is_reported_as_its_own_sentence() -> None:
    def refuse(*_: Any, **__: Any) -> Iterator[Event]:
        raise PromptError("The prompt cannot be read.")

    run = make(refuse).start(request())
    assert run.wait(WAIT)
    assert messages(run) == [{"type": "error", "message": "The prompt cannot be read."}, {"type": "done"}]


def test_an_unforeseen_error_is_reported_without_its_details_and_logged_with_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> Iterator[Event]:
        yield Started(0, "none", "x", 1, 0.0)
        raise RuntimeError("tensor 0x7f at /home/somebody/secret.py")

    run = make(fail).start(request())
    assert run.wait(WAIT)
    assert "secret" not in (run.error or "")
    assert "error in the program" in (run.error or "")
    assert "secret.py" in caplog.text


def test_a_full_memory_is_reported_as_such() -> None:
    def fail(*_: Any, **__: Any) -> Iterator[Event]:
        raise MemoryError

    run = make(fail).start(request())
    assert run.wait(WAIT)
    assert "not enough memory" in (run.error or "")


class Full(Caller):
    """A cluster with no free decoder until `begin`."""

    def __init__(self) -> None:
        self.answers: Any = queue.SimpleQueue()
        self.ahead = 2

    def _running(self) -> Any:
        return SimpleNamespace(
            open=lambda *call: (0, self.answers),
            send=lambda *message: None,
            forget=lambda number: None,
            place=lambda number: self.ahead,
        )


def test_a_run_that_waits_behind_others_of_a_cluster_says_so() -> None:
    """Catches: a page that says nothing while a run has its turn and no decoder takes it."""
    full = Full()
    runs = Runs(lambda choice, gone: Remote(full, choice, SimpleNamespace(device="cpu", chat_template=False)))  # type: ignore[arg-type]
    run = runs.start(request())
    until(lambda: run.place == 2 and run.state == "queued")
    full.ahead = 1
    until(lambda: run.place == 1)
    full.answers.put(("item", Started(0, "none", "speculative-sampling", 3, 0.01)))
    until(lambda: run.state == "running" and run.place == 0)
    full.answers.put(("lost", None))
    assert run.wait(WAIT)
    kinds = [(message["type"], message.get("place")) for message in messages(run)]
    assert kinds == [("queued", 2), ("queued", 1), ("started", None), ("error", None), ("done", None)]
    runs.close()


def test_whoever_waits_long_at_one_place_keeps_hearing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a page on which nothing moves while a run ahead takes long, reminders that a replay repeats."""
    monkeypatch.setattr(routes, "PLACE_S", 0.05)
    monkeypatch.setattr(routes, "LOOK_S", 0.05)
    full = Full()
    runs = Runs(lambda choice, gone: Remote(full, choice, SimpleNamespace(device="cpu", chat_template=False)))  # type: ignore[arg-type]
    run = runs.start(request())
    until(lambda: run.place == 2 and run.state == "queued")

    async def first(count: int) -> list[str]:
        stream = routes._messages(run, 0)
        return [await anext(stream) for _ in range(count)]

    with ThreadPoolExecutor(1) as apart:  # the main thread may still run the loop of a browser test
        said = apart.submit(asyncio.run, first(3)).result(WAIT)
    assert "id: 0\ndata: " in said[0]
    for part in said[1:]:
        assert part == 'event: waiting\ndata: {"type":"queued","place":2}\n\n'
    assert len(run.messages) == 1
    full.answers.put(("lost", None))
    assert run.wait(WAIT)
    assert run.waiting is None
    runs.close()


def test_messages_carry_every_field_of_a_step_and_the_trace_s_address(race_traces: list[Trace]) -> None:
    race = Gate(race_traces[0])
    runs = make(race)
    race.go.release()
    run = runs.start(request())
    assert run.wait(WAIT)
    started, step, finished, done = messages(run)
    assert started["type"] == "started"
    assert started["label"] == "Plain decoding"
    assert {
        "lane",
        "round",
        "clock_s",
        "tokens",
        "texts",
        "sources",
        "parent",
        "node_texts",
        "names",
        "verdict",
        "total",
    } < step.keys()
    assert finished["trace"] == f"/traces/{run.id}-0.json"
    assert finished["stats"]["tokens"] == race_traces[0].stats.tokens
    assert done == {"type": "done"}
    assert Trace.from_json(runs.trace(f"{run.id}-0") or b"") == race_traces[0]


def test_only_the_last_runs_are_kept_and_never_a_running_one_is_dropped() -> None:
    race = Gate()
    runs = make(race, keep=2)
    running = runs.start(request("running"))
    until(lambda: race.computing == 1)
    gone = []
    for _ in range(4):
        run = runs.start(request())
        run.cancel()
        assert run.wait(WAIT)
        gone.append(run)
    runs.start(request()).cancel()
    assert runs.get(running.id) is running
    assert [runs.get(run.id) is not None for run in gone] == [False, False, True, True]
    runs.close()


def test_the_traces_of_a_run_that_is_no_longer_kept_are_gone(race_traces: list[Trace]) -> None:
    race = Gate(race_traces[0])
    runs = make(race, keep=1)
    kept = []
    for _ in range(3):
        race.go.release()
        kept.append(runs.start(request()))
        assert kept[-1].wait(WAIT)
    assert [runs.trace(run.trace_name(0)) is not None for run in kept] == [False, True, True]


def test_traces_take_no_more_memory_than_they_may(
    race_traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a class whose long records fill the memory before a hundred runs are kept; and that its last is lost."""
    race = Gate(race_traces[0])
    runs = make(race)
    monkeypatch.setattr("app.decoding.runs.MOST_BYTES", len(pack(race_traces[0].to_json().encode())) * 2 - 1)
    kept = []
    for _ in range(3):
        race.go.release()
        kept.append(runs.start(request()))
        assert kept[-1].wait(WAIT)
        until(lambda: [runs.get(run.id) is not None for run in kept].count(True) == 1)
    assert runs.get(kept[-1].id) is kept[-1] and runs.trace(kept[-1].trace_name(0)) is not None


def test_the_archive_gives_back_what_it_was_given(race_traces: list[Trace]) -> None:
    archive = Archive(unpacked=1)
    for name, trace in zip("ab", race_traces, strict=True):
        archive.put(name, pack(trace.to_json().encode()))
        assert archive.trace(name) is archive.trace(name)
    assert archive.trace("a") == race_traces[0]
    assert archive.trace("b") == race_traces[1]
    assert Trace.from_json(archive.json("a") or b"") == race_traces[0]
    archive.drop("a")
    assert archive.trace("a") is None
    assert archive.json("a") is None


def test_a_run_stopped_while_its_models_load_says_so_and_no_more() -> None:
    """Catches: the loader's complaint shown to whoever pressed stop, or nothing at all."""
    from specdec_core.foundations.errors import ModelError

    def load(choice: Any, gone: Callable[[], bool]) -> Any:
        until(gone)
        raise ModelError("The run was stopped before its models were loaded.")

    run = Runs(load).start(request())
    run.cancel()
    assert run.wait(WAIT)
    assert run.error == "Stopped before it started."


@pytest.mark.parametrize("name", ["", "-", "-0", "nope-0", "../../etc/passwd-0", "x-99999999999999"])
def test_a_trace_that_does_not_exist_is_none(name: str) -> None:
    assert make(Gate()).trace(name) is None


def test_run_ids_cannot_be_guessed() -> None:
    runs = make(Gate())
    ids = {runs.start(request()).id for _ in range(8)}
    runs.close()
    assert len(ids) == 8
    assert all(len(run_id) >= 16 for run_id in ids)


class Talk:
    """A race that asks its visitor in each round, until it is cancelled."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.computing = threading.Event()

    def __call__(
        self,
        prompt: str,
        lanes: list[Settings],
        *,
        cancelled: Callable[[], bool],
        ask: Callable[[str], str],
        **_: Any,
    ) -> Iterator[Event]:
        yield Started(0, "you", "x", 1, 0.0)
        while not cancelled():
            self.computing.set()
            self.answers.append(ask("Once upon"))
            self.computing.clear()
            yield Step(0, 0, 0.1, [1], ["a"], ["plain"], [], [], [], 1)
        yield Ended(0, "cancelled")


def asked(run: Run) -> dict[str, Any] | None:
    """The question that stands open."""
    said = [message for message in messages(run) if message["type"] in ("ask", "answered")]
    return said[-1] if said and said[-1]["type"] == "ask" else None


def test_a_run_waits_for_its_visitor_and_takes_the_answer_to_the_open_question_only() -> None:
    """Catches: an answer to an earlier question that is taken for this one, and one longer than is allowed."""
    race = Talk()
    run = make(race).start(request())
    until(lambda: asked(run) is not None)
    first = asked(run)
    assert first is not None
    assert (first["text"], run.state) == ("Once upon", "asking")
    assert not run.answer(first["question"] + 1, "x")
    assert run.answer(first["question"], " a time" + "x" * 10_000)
    until(lambda: asked(run) not in (None, first))
    assert race.answers[0].startswith(" a time") and len(race.answers[0]) == first["most"]
    assert not run.answer(first["question"], "again")
    run.cancel()
    assert run.wait(WAIT)
    assert run.error is None
    assert asked(run) is None


def test_while_a_run_waits_for_its_visitor_others_compute_and_it_goes_on_before_the_rest_of_the_line() -> (
    None
):
    """Catches: a person who thinks and blocks the whole class, and one who must queue again after each guess."""
    race, talk = Gate(), Talk()

    def either(prompt: str, lanes: Any, **hooks: Any) -> Iterator[Event]:
        return (talk if prompt == "talk" else race)(prompt, lanes, **hooks)

    runs = make(either)
    person = runs.start(request("talk"))
    until(lambda: asked(person) is not None)
    others = [runs.start(request(name)) for name in ("first", "second")]
    until(lambda: race.order == ["first"])
    question = asked(person)
    assert question is not None
    assert person.answer(question["question"], "words")
    time.sleep(0.05)
    assert talk.answers == []  # the device is taken: one at a time still
    race.go.release()
    until(lambda: talk.answers == ["words"])
    until(lambda: race.order == ["first", "second"])
    person.cancel()
    race.go.release()
    assert all(run.wait(WAIT) for run in (person, *others))
    assert race.most == 1


def test_runs_that_wait_for_their_visitors_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a class that plays "You", and a server that takes no other run until they have answered."""
    from app.decoding import runs as module

    race, talk = Gate(), Talk()

    def either(prompt: str, lanes: Any, **hooks: Any) -> Iterator[Event]:
        return (talk if prompt == "talk" else race)(prompt, lanes, **hooks)

    runs = make(either, waiting=1)
    people = []
    for _ in range(4):
        people.append(runs.start(request("talk")))
        until(lambda: asked(people[-1]) is not None and people[-1].state == "asking")
    others = [runs.start(request("first")), runs.start(request("second"))]
    until(lambda: race.order == ["first"])
    with pytest.raises(Busy, match="1 runs are waiting already"):
        runs.start(request("third"))
    others[0].cancel()
    assert others[0].wait(WAIT)
    monkeypatch.setattr(
        module, "ASKING", 4
    )  # they keep threads and caches, so that there is a bound for them, too
    with pytest.raises(Busy, match="4 runs are waiting for their visitors' words"):
        runs.start(request("third"))
    runs.close()
    assert all(run.wait(WAIT) for run in (*people, *others))


def test_a_visitor_who_says_nothing_ends_the_run_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.decoding import run as module

    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    run = make(Talk()).start(request())
    assert run.wait(WAIT)
    assert "No guess came for" in (run.error or "")
    assert messages(run)[-2]["type"] == "error"


def test_closing_the_desk_ends_a_run_that_waits_for_its_visitor() -> None:
    desk = CurrentRun(make(Talk()))
    run = desk.start(request())
    until(lambda: asked(run) is not None)
    desk.close()
    assert run.wait(WAIT)
    assert run.error is None
