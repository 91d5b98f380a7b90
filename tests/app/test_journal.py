"""Runs and their messages in the database: what other web processes see, and what is left of one that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import services
from app.decoding.run import AFTER_DEATH, Request, Run
from app.records import journal as module
from app.records import keeping
from app.records.database import Database
from app.records.journal import Journal
from app.records.schema import journal, messages
from app.records.store import Library
from app.web import routes
from specdec_core.settings import Settings

from .kept import ANNA, BEN
from .test_runs import until

STEPS = 400
# Another web process: one run that is over, then one that says something every few milliseconds until it is killed.
OTHER = f"""
import sys, time
from app.decoding.run import Request, Run
from app.records.database import Database
from app.records.journal import Journal
from specdec_core.settings import Settings

journal = Journal(Database(sys.argv[1]), 10**9)
for name, pause in (("over", 0), ("killed", 0.01)):
    run = Run(id=name, owner={ANNA!r}, ticket="t" * 24, request=Request("abc", (Settings(),), ("x",)))
    journal.begin(run)
    for step in range({STEPS}):
        run.publish({{"type": "step", "step": step}})
        print(name, step, flush=True)
        time.sleep(pause)
    run.ending("done")
    journal.end(run)
"""


@pytest.fixture
def database(place: Path | str) -> Iterator[Database]:
    database = Database(place)
    yield database
    database.close()


@pytest.fixture
def process(database: Database) -> Iterator[Callable[..., Journal]]:
    """Makes journals, each as of another process."""
    made: list[Journal] = []

    def one(most_bytes: int = 10**9, **given: Any) -> Journal:
        made.append(Journal(database, most_bytes, **given))
        return made[-1]

    yield one
    for each in made:
        each._mine.clear()
        each.close()


def started(journal: Journal, said: int = 0, **given: Any) -> Run:
    run = Run(request=Request("abc", (Settings(),), ("x",)), **{"owner": ANNA, **given})
    journal.begin(run)
    say(run, said)
    return run


def say(run: Run, steps: int) -> None:
    for _ in range(steps):
        run.publish({"type": "step", "step": len(run.messages)})


def over(journal: Journal, run: Run) -> None:
    run.perform(lambda: None)
    journal.end(run)


def steps(run: Run) -> list[int]:
    return [json.loads(message).get("step") for message in run.messages]


def test_another_process_follows_a_run_to_its_end(process: Callable[..., Journal]) -> None:
    """Catches: a message that is shown twice or never, and a run that somebody else's page can open."""
    here, there = process(), process()
    run = started(here, 3, ticket="t" * 24)
    until(lambda: there.find(run.id, ANNA) is not None)
    seen = there.find(run.id, ANNA)
    assert seen is not None and not seen.finished and seen.request == run.request
    for owner, ticket in ((BEN, ""), (None, ""), (None, "T" * 24), (run.id, run.id)):
        assert there.find(run.id, owner, ticket) is None
        assert process().find(run.id, owner, ticket) is None
    assert process().find(run.id, None, run.ticket) is not None
    for more in (1, 40, 2):
        say(run, more)
        until(lambda: len(seen.messages) == len(run.messages))
    run.publish({"type": "finished", "lane": 0, "end": "length"})
    run.perform(lambda: None)
    until(lambda: len(seen.messages) == len(run.messages) - 1)
    time.sleep(2 * module.WRITE_S)
    assert not seen.finished, "its record can be read elsewhere only once the library has it"
    here.end(run)
    assert seen.wait(10)
    assert seen.messages == run.messages and seen.ends == {0: "length"} and seen.lost is None
    again = process().find(run.id, ANNA)
    assert again is not None and again.finished and again.messages == run.messages


def test_many_runs_are_written_in_one_transaction(
    process: Callable[..., Journal], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a transaction for every message, or for every run."""
    here = process()
    runs = [started(here, 50) for _ in range(10)]
    until(lambda: all(written.count == 50 for written in here._mine.values()))
    with database.transaction() as connection:
        batches = connection.execute(select(func.count()).select_from(messages)).scalar_one()
        moments = connection.execute(select(func.count(journal.c.id.distinct()))).scalar_one()
    assert len(runs) == moments == 10 and batches < 40


def test_a_process_that_was_killed_leaves_finished_runs_intact_and_ends_its_own_with_a_sentence(
    place: Path | str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a page that waits forever for a dead process, one that is shown messages twice after it, and one that is
    not told how its run ended because it had seen more of it than was written down."""
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(place) if isinstance(place, str) else f"sqlite:///{place}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    for line in other.stdout:
        name, step = line.split()
        if name == "killed" and int(step) == 100:
            break
    here = Journal(database, 10**9)
    monkeypatch.setattr(services, "journal", lambda: here)
    until(lambda: here.find("killed", ANNA) is not None)
    seen = here.find("killed", ANNA)
    assert seen is not None and not seen.finished
    os.kill(other.pid, signal.SIGKILL)
    said = 101 + len(other.communicate()[0].splitlines())
    assert seen.wait(10)
    *before, error, done = [json.loads(message) for message in seen.messages]
    assert [message["step"] for message in before] == list(range(len(before)))
    assert (
        0 < len(before) <= said
        and error["message"] == seen.error == module.PROCESS_DIED
        and done["type"] == "done"
    )
    whole = here.find("over", ANNA)
    assert whole is not None and steps(whole) == [*range(STEPS), None] and whole.lost is None

    with TestClient(Starlette(routes=routes.routes())) as client:

        def after(number: int | None) -> list[tuple[int, str]]:
            headers = {} if number is None else {"last-event-id": str(number)}
            answer = client.get(f"/runs/killed/events?ticket={'t' * 24}", headers=headers)
            assert answer.status_code in (200, 204)
            text = answer.text.removeprefix(routes.RETRY)
            parts = [part.split("\n", 1) for part in text.split("\n\n") if part.strip()]
            return [(int(number.removeprefix("id: ")), data.removeprefix("data: ")) for number, data in parts]

        everything = after(None)
        assert [data for _, data in everything] == seen.messages
        assert after(4) == everything[5:]
        # this page saw more than was written down
        assert after(said + 10) == everything[-2:] and everything[-2][0] == AFTER_DEATH
        assert after(everything[-2][0]) == everything[-1:] and after(everything[-1][0]) == []
        assert client.get("/runs/killed/events").status_code == 404
    here.close()


def test_a_process_of_another_machine_is_dead_once_it_is_silent(
    process: Callable[..., Journal], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = process(), process()
    monkeypatch.setattr("app.records.processes.lives", lambda name: None)
    run = started(here, 3)
    until(lambda: there.find(run.id, ANNA) is not None)
    seen = there.find(run.id, ANNA)
    assert seen is not None
    assert not seen.wait(1), "it has just said that it lives"
    here._mine.clear()  # as if killed
    with database.transaction(writes=True) as connection:
        connection.execute(update(module.processes).values(seen=module.processes.c.seen - 2 * module.DEAD_S))
    assert seen.wait(10) and seen.error == module.PROCESS_DIED


def test_the_oldest_messages_make_room_and_recent_ones_never(
    process: Callable[..., Journal], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT_S", 0.5)
    here = process(most_bytes=3_000)
    first, going = started(here, 1, ticket=""), started(here, 1)
    over(here, first)
    until(lambda: first.id not in here._mine)
    assert here.find(first.id, ANNA) is not None
    here._others.clear()
    time.sleep(0.6)
    last = started(here, 3_000)
    over(here, last)
    until(lambda: last.id not in here._mine)
    assert here.find(first.id, ANNA) is None and here.find(last.id, ANNA) is not None
    assert here.find(going.id, ANNA) is not None


def test_a_deleted_run_is_gone_in_every_process(process: Callable[..., Journal], database: Database) -> None:
    """Catches: "Delete permanently", and another web process that still has it."""
    gone: list[str] = []
    here, there = process(), process(deleted=gone.append)
    run = started(here, 3)
    over(here, run)
    until(lambda: there.find(run.id, ANNA) is not None)
    run.deleted = True
    here.forget([run.id])
    if database.shared:
        until(lambda: gone == [run.id])
        assert there.find(run.id, ANNA) is None
    assert process().find(run.id, ANNA) is None


def test_a_page_finds_its_run_wherever_it_is(
    process: Callable[..., Journal], place: Path | str, fresh: Any, kept: Any
) -> None:
    """Catches: a page of another process that says that its run does not exist, while it runs or afterwards."""
    library = Library(place)
    here, there = process(), process()
    run = started(here, 3)
    until(lambda: keeping.find(run.id, ANNA, fresh, library, there) is not None)
    assert keeping.find(run.id, BEN, fresh, library, there) is None
    found = keeping.find(run.id, ANNA, fresh, library, there)
    assert found is not None and found.active
    pair = Request("abc", (Settings(), Settings()), ("x", "y"))
    request = keeping._written(Run(request=pair, ends={0: "length", 1: "length"}))
    given = {"origin": "measured", "machine": "", "recorded": "", "run_id": run.id, "request": request}
    library.add(ANNA, "abc", kept, **given)
    found = keeping.find(run.id, ANNA, fresh, library, there)
    assert found is not None and found.restored and len(found.traces) == 2
    library.close()
