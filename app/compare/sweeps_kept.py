"""Sweeps in the database: they outlive the process that measures them, and other web processes show them.

The measuring process writes what it has every few seconds, between two cells, and reads there whether its owner, at
another process, wants its end or deleted it, and whether anybody there still watches. A sweep whose process died is
stopped: its owner can resume it anywhere.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
import zlib
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from app.decoding.jobs import OVER
from app.decoding.models import Choice
from app.records.database import Database
from app.records.keys import digest
from app.records.processes import lives, own_name
from app.records.schema import sweeps
from specdec_core.foundations.errors import SpecdecError
from specdec_core.settings import Settings
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase

from .sweep import Order, Sweep

WRITE_S = 5.0  # between two writes of a sweep under way
DEAD_S = (
    300.0  # one of another machine that has not been written for this long is dead; a cell may take a while
)
OWNERS = 16  # sweeps of one owner
ALL_BYTES = 50_000_000  # of all owners; packed
WATCH_S = 30.0  # between two notes that a page here shows a sweep
READ = 32  # sweeps of other processes, or of earlier ones, kept in memory
LOST = "The server process that measured this sweep ended. What it had measured is kept: Resume goes on from there."


class Kept:
    """The sweeps of all processes that share a database."""

    def __init__(
        self,
        database: Database,
        *,
        write_s: float = WRITE_S,
        owners: int = OWNERS,
        all_bytes: int = ALL_BYTES,
    ) -> None:
        self._database, self._write_s, self._owners, self._all = database, write_s, owners, all_bytes
        self.process = own_name()
        self._read: OrderedDict[str, Sweep] = OrderedDict()
        self._watched: dict[str, float] = {}
        self._lock = threading.Lock()

    def write(self, job: Sweep) -> None:
        """Write what a sweep of this process has measured, and end it where its owner wants so elsewhere."""
        packed = zlib.compress(json.dumps([asdict(row) for row in job.rows]).encode(), level=1)
        ordered, about = _ordered(job.order), json.dumps(job.about)
        version = job.written[0] + 1
        values = {
            "process": self.process, "state": job.state, "error": job.error, "about": about, "rows": packed,
            "bytes": len(packed) + len(ordered) + len(about), "written": time.time(), "version": version,
        }  # fmt: skip
        with self._database.transaction(writes=True) as connection:
            if version == 1:
                owner = digest(job.owner or "")
                first = {"owner": owner, "kind": job.kind, "ordered": ordered, "watched": 0, "stop": False}
                self._database.put(connection, sweeps, id=job.id, **values, **first)
                self._make_room(connection, owner, job.id)
                wanted: Row[Any] | None = None
            else:
                wanted = connection.execute(
                    update(sweeps)
                    .where(sweeps.c.id == job.id, sweeps.c.process == self.process)
                    .values(**values)
                    .returning(sweeps.c.stop, sweeps.c.watched)
                ).one_or_none()
                if wanted is None or wanted.stop:  # deleted, or not wanted any more
                    job.cancel()
        if wanted is not None and wanted.watched != job.watched:
            job.watched = wanted.watched
            job.seen()
        job.written = (version, time.monotonic())

    def write_now_and_then(self, job: Sweep) -> None:
        """Write it if that was not done in the last seconds."""
        if time.monotonic() - job.written[1] >= self._write_s:
            self.write(job)

    def find(self, sweep_id: str, owner: str, known: Sweep | None = None) -> Sweep | None:
        """A sweep of any process, as its owner or as somebody else sees it.

        `known`: as this process measured it, which is returned unless another one has gone on with it since.
        """
        with self._database.transaction() as connection:
            head = select(sweeps.c.version, sweeps.c.owner).where(sweeps.c.id == sweep_id)
            there = connection.execute(head).one_or_none()
            if there is None:
                return None
            if not hmac.compare_digest(digest(owner), there.owner):
                with self._lock:
                    known = self._read.get(
                        sweep_id
                    )  # as others see it: without an owner, who could control it
            if known and known.written[0] == there.version and not known.elsewhere:
                return known
            row = connection.execute(select(sweeps).where(sweeps.c.id == sweep_id)).one_or_none()
        found = None if row is None else self._shown(row, owner)
        if found is not None and found.owner is None:  # as everybody may see it
            with self._lock:
                self._read[sweep_id] = found
                while len(self._read) > READ:
                    self._read.popitem(last=False)
        return found

    def watch(self, sweep_id: str) -> None:
        """Tell the process that measures it, now and then, that a page here shows it."""
        now = time.monotonic()
        with self._lock:
            if now - self._watched.get(sweep_id, -WATCH_S) < WATCH_S:
                return
            self._watched = {one: at for one, at in self._watched.items() if now - at < WATCH_S}
            self._watched[sweep_id] = now
        self._change(sweep_id, watched=sweeps.c.watched + 1)

    def stop(self, sweep_id: str) -> None:
        """Ask the process that measures it to end it."""
        self._change(sweep_id, stop=True)

    def take(self, job: Sweep) -> bool:
        """Make a stopped sweep this process's own, to resume it; False if another process was first."""
        with self._database.transaction(writes=True) as connection:
            taken = connection.execute(
                update(sweeps)
                .where(sweeps.c.id == job.id, sweeps.c.version == job.written[0])
                .values(process=self.process, state="loading", stop=False, version=job.written[0] + 1)
            ).rowcount
        with self._lock:
            self._read.pop(job.id, None)
        job.written = (job.written[0] + 1, time.monotonic())
        return bool(taken)

    def delete(self, sweep_id: str) -> None:
        """Forget it."""
        with self._database.transaction(writes=True) as connection:
            connection.execute(delete(sweeps).where(sweeps.c.id == sweep_id))
        self._database.scrub()
        with self._lock:
            self._read.pop(sweep_id, None)

    def _change(self, sweep_id: str, **values: Any) -> None:
        with self._database.transaction(writes=True) as connection:
            connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**values))

    def _shown(self, row: Row[Any], owner: str) -> Sweep | None:
        mine = hmac.compare_digest(digest(owner), row.owner)
        try:
            rows = [MeasuredCase(**one) for one in json.loads(zlib.decompress(row.rows))]
            order, about = _order(row.ordered), json.loads(row.about)
        except (SpecdecError, KeyError, TypeError, ValueError, zlib.error):  # of another version
            return None
        job = Sweep(
            id=row.id, owner=owner if mine else None, order=order, kind=row.kind, state=row.state, error=row.error,
            rows=rows, about=about, written=(row.version, time.monotonic()), watched=row.watched,
        )  # fmt: skip
        if row.state in OVER:
            job.over()
        elif self._is_dead(row):
            job.state, job.error = "stopped", LOST
            job.over()
        else:
            job.elsewhere = True
        return job

    def _is_dead(self, row: Row[Any]) -> bool:
        here = lives(row.process)
        return time.time() - row.written > DEAD_S if here is None else not here

    def _make_room(self, connection: Connection, owner: str, but: str) -> None:
        """Delete the owner's oldest sweeps, and the oldest of all, while they are too many or too large."""
        self._database.alone(connection)
        ended = sweeps.c.state.in_(OVER) & (sweeps.c.id != but)
        newest = select(sweeps.c.id).where(sweeps.c.owner == owner).order_by(sweeps.c.written.desc())
        keep = connection.execute(newest.limit(self._owners)).scalars().all()
        connection.execute(delete(sweeps).where(sweeps.c.owner == owner, ended, sweeps.c.id.not_in(keep)))
        total = int(connection.execute(select(func.coalesce(func.sum(sweeps.c.bytes), 0))).scalar_one())
        for one in connection.execute(
            select(sweeps.c.id, sweeps.c.bytes).where(ended).order_by(sweeps.c.written)
        ):
            if total <= self._all:
                return
            connection.execute(delete(sweeps).where(sweeps.c.id == one.id))
            total -= one.bytes


def _ordered(order: Order) -> str:
    return json.dumps(
        {
            "cases": [asdict(case) for case in order.cases],
            "lanes": [lane.model_dump(mode="json") for lane in order.lanes],
            "labels": order.labels,
            "repeats": order.repeats,
            "choice": asdict(order.choice) if isinstance(order.choice, Choice) else None,
        }
    )


def _order(content: str) -> Order:
    """What `_ordered` wrote.

    Raises:
        SpecdecError, KeyError, TypeError, ValueError: if another version did.
    """
    given = json.loads(content)
    return Order(
        tuple(Case(**case) for case in given["cases"]),
        tuple(Settings(**lane) for lane in given["lanes"]),
        tuple(given["labels"]),
        given["repeats"],
        Choice(**given["choice"]) if given["choice"] else None,
    )
