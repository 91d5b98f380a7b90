"""Runs and their messages in the database, so that every web process can show a run that another one computes.

A page's own process streams a run from memory. One thread writes what all its runs have said since, a few times a
second and in one transaction; another follows the runs that pages here show and other processes compute: PostgreSQL
notifies it, SQLite is polled. A run whose process died is ended, with a sentence, by the first process that is asked
for it.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, Row, delete, func, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from app.decoding.run import DONE, Run, encoded
from specdec_core.foundations.errors import SpecdecError

from . import requests
from .database import Database, Unavailable
from .keys import digest
from .packing import pack, unpack
from .processes import is_dead, own_name
from .schema import journal, messages, processes, runs

log = logging.getLogger(__name__)

WRITE_S = 0.25  # between two transactions of the writer
POLL_S = 0.2  # between two looks of the follower, where nothing notifies it
ALIVE_S = 2.0  # how often a process with runs says that it is alive
DEAD_S = 10.0  # one that has not for this long is dead; one of this machine is looked for at once
FINISHED_RUNS_KEPT = 100  # finished runs of other processes that are kept in memory
RECENT_S = 600.0  # finished runs are not evicted before: pages may be catching up
CHANNEL = "specdec_runs"
PROCESS_DIED = (
    "The server process that computed this run ended, and the run with it. Press Run to start it again; your prompt "
    "and settings are kept."
)


@dataclass(slots=True)
class _Written:
    """How much of a run of this process is in the database."""

    run: Run
    count: int = 0
    began: bool = False
    over: bool = False  # it has ended, and the library has what it keeps of it


@dataclass(frozen=True, slots=True)
class _Followed:
    """A run of another process; `owner` and `ticket` are digests."""

    run: Run
    process: str
    owner: str | None
    ticket: str | None

    def is_for(self, owner: str | None, ticket: str) -> bool:
        return _is(owner, self.owner) or _is(ticket, self.ticket)


class Journal:
    """This process's part in the journal of runs."""

    def __init__(
        self, database: Database, most_bytes: int, deleted: Callable[[str], None] = lambda run_id: None
    ) -> None:
        """`most_bytes`: what the library's traces and the messages may take together; `deleted` is called with the id
        of a run that was deleted in another process."""
        self._database, self._most_bytes, self._deleted = database, most_bytes, deleted
        self.process = own_name()
        self._mine: dict[str, _Written] = {}
        self._others: OrderedDict[str, _Followed] = OrderedDict()
        self._changed = threading.Condition()
        self._seen = 0.0  # when this process last said that it is alive
        self._closing = False
        self._writing = threading.Thread(target=self._write_on, name="journal", daemon=True)
        self._writing.start()
        self._following = threading.Thread(target=self._follow_on, name="journal-follower", daemon=True)
        self._following.start()

    def begin(self, run: Run) -> None:
        """A run of this process has started: write down what it says from now on."""
        with self._changed:
            self._mine[run.id] = _Written(run)
            self._changed.notify_all()

    def end(self, run: Run) -> None:
        """It has ended, and is in the library if it is kept: other processes may be told."""
        with self._changed:
            if run.id in self._mine:
                self._mine[run.id].over = True

    def forget(self, run_ids: Collection[str]) -> None:
        """Their owner deleted them."""
        with self._changed:
            for run_id in run_ids:
                self._mine.pop(run_id, None)
                self._others.pop(run_id, None)
        with self._database.transaction(writes=True) as connection:
            connection.execute(delete(journal).where(journal.c.id.in_(run_ids)))
            for run_id in run_ids:
                self._notify(connection, f"-{run_id}")
        self._database.scrub()

    def started(self, owners: Collection[str]) -> list[str]:
        """The runs that these have started, in any process."""
        whose = [_digest(owner) for owner in owners]
        with self._database.transaction() as connection:
            return list(connection.execute(select(journal.c.id).where(journal.c.owner.in_(whose))).scalars())

    def find(self, run_id: str, owner: str | None, ticket: str = "") -> Run | None:
        """The run with that id, wherever it was computed, if it belongs to this owner or has this ticket."""
        with self._changed:
            found = self._others.get(run_id)
            if found is not None:
                return found.run if found.is_for(owner, ticket) else None
        with self._database.transaction() as connection:
            row = connection.execute(select(journal).where(journal.c.id == run_id)).one_or_none()
        if row is None or not (_is(owner, row.owner) or _is(ticket, row.ticket)):
            return None
        try:
            content = json.loads(row.request)
            run = Run(
                id=row.id,
                owner=owner if _is(owner, row.owner) else None,
                ticket=ticket if _is(ticket, row.ticket) else "",
                request=requests.read(content["prompt"], content),
                state="running",
            )
        except (SpecdecError, KeyError, TypeError, ValueError):  # of another version
            return None
        found = _Followed(run, row.process, row.owner, row.ticket)
        self._catch_up([found])
        with self._changed:
            found = self._others.setdefault(run_id, found)
            over = [known for known, other in self._others.items() if other.run.finished]
            for known in over[:-FINISHED_RUNS_KEPT]:
                del self._others[known]
            self._changed.notify_all()
        return found.run

    def close(self, within_s: float = 3.0) -> None:
        """Write down how the runs of this process end, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in (self._writing, self._following):
            thread.join(within_s)

    # writing

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._mine or self._closing)
                if self._closing and not self._mine:
                    return
            time.sleep(WRITE_S)
            try:
                self.write()
            except Unavailable:  # it has been logged; what was said meanwhile is written next time
                time.sleep(1.0)

    def write(self) -> None:
        """Write down what the runs of this process have said since the last time."""
        with self._changed:
            known = [written for written in self._mine.values() if not written.run.deleted]
        now = time.monotonic()
        news = [(written, written.over, _news(written)) for written in known]
        if now - self._seen < ALIVE_S and not any(over or said for _, over, said in news):
            return
        counts: list[tuple[_Written, int | None]] = []
        with self._database.transaction(writes=True) as connection:
            clock = self._clock(connection)
            self._database.put(connection, processes, id=self.process, seen=clock)
            for written, over, said in news:
                if over or said:
                    counts.append((written, self._append(connection, written, said, clock if over else None)))
                    self._notify(connection, written.run.id)
            if any(over for _, over, _ in news):
                self._make_room(connection, clock)
        self._seen = now
        with self._changed:
            for written, count in counts:
                written.began, written.count = True, count or written.count
            for written, over, _ in news:
                if over or (written, None) in counts:
                    self._mine.pop(written.run.id, None)

    def _append(
        self, connection: Connection, written: _Written, said: list[str], ended: float | None
    ) -> int | None:
        """Add a batch; returns how many messages there are, None if the run was deleted, or taken for lost."""
        run, packed = written.run, pack(said)
        if not written.began:
            content = {"prompt": run.request.prompt, **requests.written(run.request)}
            request = json.dumps(content)
            row = {
                "id": run.id,
                "process": self.process,
                "owner": _digest(run.owner),
                "ticket": _digest(run.ticket),
                "created": self._clock(connection),
                "request": request,
                "count": 0,
                "bytes": len(request),
                "lost": False,
            }
            connection.execute(insert(journal).values(row))
        there = connection.execute(
            update(journal)
            .where(journal.c.id == run.id, journal.c.ended.is_(None))
            .values(count=journal.c.count + len(said), bytes=journal.c.bytes + len(packed), ended=ended)
        )
        if not there.rowcount:
            return None
        if said:
            connection.execute(
                insert(messages).values(run=run.id, first=written.count, count=len(said), packed=packed)
            )
        return written.count + len(said)

    def _make_room(self, connection: Connection, clock: float) -> None:
        """Delete the oldest finished runs' messages while they and the library take too much."""
        held = select(func.coalesce(func.sum(journal.c.bytes), 0)).scalar_subquery()
        kept = select(func.coalesce(func.sum(runs.c.bytes), 0)).scalar_subquery()
        lacking = int(connection.execute(select(held + kept)).scalar_one()) - self._most_bytes
        if lacking <= 0:
            return
        old = select(journal.c.id, journal.c.bytes).where(journal.c.ended < clock - RECENT_S)
        for row in connection.execute(old.order_by(journal.c.ended)).all():
            if lacking <= 0:
                return
            connection.execute(delete(journal).where(journal.c.id == row.id))
            lacking -= row.bytes

    # following

    def _follow_on(self) -> None:
        while not self._closing:
            try:
                for news in self._news():
                    for run_id in [name[1:] for name in news if name.startswith("-")]:
                        with self._changed:
                            self._others.pop(run_id, None)
                        self._deleted(run_id)
                    with self._changed:
                        followed = [other for other in self._others.values() if not other.run.finished]
                    self._catch_up(other for other in followed if not news or other.run.id in news)
            except (Unavailable, SQLAlchemyError, psycopg.Error):
                log.warning("runs of other processes cannot be followed just now", exc_info=True)
                time.sleep(1.0)

    def _news(self) -> Iterator[list[str]]:
        """The runs of which there is news, with a - before deleted ones. An empty list: look at all."""
        if self._database.shared:
            yield from self._database.notifications(CHANNEL, lambda: self._closing)
        while not self._closing:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or any(not other.run.finished for other in self._others.values())
                )
            yield []
            time.sleep(POLL_S)

    def _catch_up(self, followed: Iterable[_Followed]) -> None:
        """Add to these runs what they have said in their processes."""
        for other in followed:
            run = other.run
            with self._database.transaction() as connection:
                row, said = self._said(connection, run)
                dead = row is not None and row.ended is None and self._is_dead(connection, other.process)
            if dead:
                self._bury(run.id)
                with self._database.transaction() as connection:
                    row, said = self._said(connection, run)
            run.follow(said, over=row is None or row.ended is not None, lost=row is not None and row.lost)

    def _said(self, connection: Connection, run: Run) -> tuple[Row[Any, Any] | None, list[str]]:
        # First whether it is over, then what it said: nothing in between is missed.
        row = connection.execute(
            select(journal.c.ended, journal.c.lost).where(journal.c.id == run.id)
        ).one_or_none()
        batches = connection.execute(
            select(messages.c.packed)
            .where(messages.c.run == run.id, messages.c.first >= len(run.messages))
            .order_by(messages.c.first)
        ).scalars()
        return row, [line for packed in batches for line in unpack(packed)]

    def _is_dead(self, connection: Connection, process: str) -> bool:
        if process == self.process:
            return False
        seen = connection.execute(select(processes.c.seen).where(processes.c.id == process)).scalar()
        return is_dead(process, self._clock(connection) - (seen or 0.0), DEAD_S)

    def _bury(self, run_id: str) -> None:
        """End a run whose process is dead."""
        last = [encoded({"type": "error", "message": PROCESS_DIED}), DONE]
        with self._database.transaction(writes=True) as connection:
            dead = connection.execute(
                update(journal)
                .where(journal.c.id == run_id, journal.c.ended.is_(None))
                .values(count=journal.c.count + len(last), ended=self._clock(connection), lost=True)
                .returning(journal.c.count)
            ).scalar()
            if dead is not None:  # else another process was first
                first = dead - len(last)
                connection.execute(
                    insert(messages).values(run=run_id, first=first, count=len(last), packed=pack(last))
                )
                self._notify(connection, run_id)

    def _notify(self, connection: Connection, what: str) -> None:
        if self._database.shared:
            connection.execute(select(func.pg_notify(CHANNEL, what)))

    def _clock(self, connection: Connection) -> float:
        """Seconds since 1970, by one clock for all processes."""
        if not self._database.shared:
            return time.time()
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def _news(written: _Written) -> list[str]:
    """What a run has said since; its last message waits until the library has what the others will read."""
    said = written.run.messages[written.count :]
    return said[:-1] if said and said[-1] == DONE and not written.over else said


def _digest(secret: str | None) -> str | None:
    return digest(secret) if secret else None


def _is(secret: str | None, known: str | None) -> bool:
    return bool(secret and known) and hmac.compare_digest(_digest(secret) or "", known or "")
