"""Sweeps in the database: seen from other processes, and gone on with after their process died."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select, update

from app.compare.sweep import Sweep
from app.compare.sweep_store import PROCESS_DIED, SweepTable
from app.compare.sweeps import Sweeps
from app.decoding.device_queue import DeviceQueue
from app.decoding.loaded import Loaded
from app.decoding.models import ModelChoice
from app.records.database import Database
from app.records.schema import sweeps as table

from .conftest import scripted_models
from .kept import ANNA, BEN
from .test_sweeps import WAIT, Gate, order, until


@pytest.fixture
def database(place: Path | str) -> Iterator[Database]:
    database = Database(place)
    yield database
    all_written()
    database.close()


def all_written() -> None:
    """Wait until the sweeps that ended have written so."""
    for thread in threading.enumerate():
        if thread.name.startswith("sweep-"):
            thread.join(WAIT)


def process(database: Database, models: object = None) -> Sweeps:
    """The sweeps as one web process has them."""
    found, line = Loaded(models or scripted_models()), DeviceQueue()
    return Sweeps(lambda choice, gone: found, lambda device: line, store=SweepTable(database, write_s=0.0))


def another_s(database: Database, job: Sweep) -> None:
    """Make the database say that a process which has ended since was measuring this sweep."""
    ended = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    born = psutil.Process(ended.pid).create_time()
    ended.communicate()
    with database.transaction(writes=True) as connection:
        here = connection.execute(select(table.c.process).where(table.c.id == job.id)).scalar_one()
        name = f"{here.split('|')[0]}|{ended.pid}|{born:.2f}|abcd"
        connection.execute(update(table).where(table.c.id == job.id).values(process=name, state="running"))


def test_a_sweep_is_there_after_a_restart_and_in_other_processes(database: Database) -> None:
    """Catches: an hour of measuring that is gone with the process, or somebody else who may stop it."""
    job = process(database).start(order(choice=ModelChoice("somebody/model")), ANNA)
    assert job.wait(WAIT)
    until(lambda: job.stored > 0 and process(database).get(job.id, ANNA) is not None)
    until(lambda: getattr(process(database).get(job.id, ANNA), "state", "") == "done")
    other = process(database)
    found, seen = other.get(job.id, ANNA), other.get(job.id, BEN)
    assert found is not None and seen is not None
    assert (found.state, found.error, found.order, found.rows) == ("done", None, job.order, job.rows)
    assert found.about == job.about and not found.active
    assert (found.owner, seen.owner) == (ANNA, None)
    assert other.get("nobody's", ANNA) is None
    other.delete(found)
    assert all(jobs.get(job.id, ANNA) is None for jobs in (other, process(database)))


def test_an_owner_keeps_their_sweep_after_somebody_else_looked_at_it(database: Database) -> None:
    """Catches: no Resume and no Delete once the link has been opened by another."""
    for jobs in (here := process(database), process(database)):
        job = here.start(order(), ANNA)
        assert job.wait(WAIT)
        all_written()
        for _ in range(2):
            seen, mine = jobs.get(job.id, BEN), jobs.get(job.id, ANNA)
            assert seen is not None and mine is not None
            assert (seen.owner, mine.owner) == (None, ANNA)
        if jobs is here:
            assert mine is job, "what this process measured is not read again"


def test_another_process_shows_a_sweep_under_way(database: Database) -> None:
    """Catches: a sweep that another process calls over, or does not know, while it is measured."""
    gate = Gate()
    here, there = process(database, gate.models), process(database)
    job = here.start(order(repeats=4), ANNA)
    gate.shut = lambda: len(job.rows) == 5
    until(lambda: len(job.rows) == 5 and getattr(there.get(job.id, ANNA), "rows", None) == job.rows)
    seen = there.get(job.id, ANNA)
    assert seen is not None and seen.active and seen.elsewhere and seen.order == job.order
    gate.open()
    assert job.wait(WAIT)
    until(lambda: getattr(there.get(job.id, ANNA), "state", "") == "done")


def test_what_a_dead_process_had_measured_is_gone_on_with(database: Database) -> None:
    """Catches: a sweep that says for ever that it is running, or that begins again from nothing."""
    gate = Gate()
    job = process(database, gate.models).start(order(), ANNA)
    gate.shut = lambda: len(job.rows) == 5  # two turns are done, the third is half done
    until(lambda: len(getattr(process(database).get(job.id, ANNA), "rows", ())) == 5)
    another_s(database, job)
    first = process(database)
    found = first.get(job.id, ANNA)
    assert found is not None
    assert (found.state, found.error, len(found.rows), found.active) == ("stopped", PROCESS_DIED, 5, False)
    first.resume(found)
    assert found.wait(WAIT) and found.state == "done" and len(found.rows) == found.order.cells
    assert [row.seconds for row in found.rows[:4]] == [row.seconds for row in job.rows[:4]]
    until(lambda: getattr(process(database).get(job.id, ANNA), "state", "") == "done")
    again = process(database).get(job.id, ANNA)
    assert again is not None and (again.state, again.rows) == ("done", found.rows)
    job.cancel()
    gate.open()
    assert job.wait(WAIT)


def test_a_sweep_that_was_deleted_elsewhere_ends_and_does_not_come_back(database: Database) -> None:
    """Catches: a deleted sweep that its process writes again."""
    gate = Gate()
    here, there = process(database, gate.models), process(database)
    job = here.start(order(repeats=4), ANNA)
    gate.shut = lambda: len(job.rows) == 5
    until(lambda: there.get(job.id, ANNA) is not None and len(job.rows) == 5)
    there.delete(Sweep(id=job.id, owner=ANNA, order=job.order))
    gate.open()
    assert job.wait(WAIT) and job.state == "stopped"
    all_written()
    assert there.get(job.id, ANNA) is None and here.get(job.id, ANNA) is None


def test_only_so_many_are_kept_for_an_owner_and_in_all(database: Database) -> None:
    def left(kept: SweepTable, jobs: list[Sweep]) -> list[bool]:
        return [kept.find(job.id, ANNA) is not None for job in jobs]

    def ended(owner: str) -> Sweep:
        return Sweep(owner=owner, order=order(), state="done")

    kept = SweepTable(database, per_owner=2)
    jobs = [ended(ANNA), ended(ANNA), ended(BEN), ended(ANNA)]
    for job in jobs:
        kept.write(job)
    assert left(kept, jobs) == [False, True, True, True]
    small = SweepTable(database, total_bytes=0)
    last = ended(BEN)
    small.write(last)
    assert left(kept, [*jobs, last]) == [False, False, False, False, True]
