"""What sweeps have measured, in the database: it outlives the process that measures, and others show it.

The measuring process writes every few seconds, between two cells. A sweep whose process died is stopped, and its owner
can resume it anywhere.
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, delete, func, select, update

from app.decoding.jobs import OVER
from app.records.database import Database
from app.records.keys import digest
from app.records.packing import pack, unpack
from app.records.processes import is_dead, own_name
from app.records.schema import sweeps
from specdec_core.foundations.errors import SpecdecError
from specdec_measure.sweep.measured import MeasuredCase

from .sweep import Order, Sweep

ORDER = TypeAdapter(Order)
WRITE_S = 5.0  # between two writes of a sweep under way
DEAD_S = (
    300.0  # a process of another machine that wrote nothing for this long is dead; a cell may take a while
)
SWEEPS_PER_OWNER = 16
TOTAL_BYTES = 50_000_000  # of all owners' sweeps, packed
PROCESS_DIED = (
    "The server process that measured this sweep ended. What it had measured is kept: "
    "Resume goes on from there."
)


class SweepTable:
    """The sweeps of all processes that share a database."""

    def __init__(
        self,
        database: Database,
        *,
        write_s: float = WRITE_S,
        per_owner: int = SWEEPS_PER_OWNER,
        total_bytes: int = TOTAL_BYTES,
    ) -> None:
        self._database, self._write_s = database, write_s
        self._per_owner, self._total_bytes = per_owner, total_bytes
        self.process = own_name()

    def write(self, job: Sweep) -> None:
        """Write what a sweep of this process has measured; one that was deleted meanwhile ends."""
        rows = pack([json.dumps([asdict(row) for row in job.rows])])
        ordered, about = ORDER.dump_json(job.order).decode(), json.dumps(job.about)
        values = {
            "process": self.process, "state": job.state, "error": job.error, "about": about, "rows": rows,
            "bytes": len(rows) + len(ordered) + len(about), "written": time.time(),
        }  # fmt: skip
        with self._database.transaction(writes=True) as connection:
            if not job.stored:
                owner = digest(job.owner or "")
                first = {"owner": owner, "kind": job.kind, "ordered": ordered}
                self._database.put(connection, sweeps, id=job.id, **values, **first)
                self._make_room(connection, owner, job.id)
            elif not connection.execute(
                update(sweeps).where(sweeps.c.id == job.id).values(**values)
            ).rowcount:
                job.cancel()
        job.stored = time.monotonic()

    def write_now_and_then(self, job: Sweep) -> None:
        """Write it if that was not done in the last seconds."""
        if time.monotonic() - job.stored >= self._write_s:
            self.write(job)

    def find(self, sweep_id: str, owner: str, known: Sweep | None = None) -> Sweep | None:
        """A sweep of any process, as its owner or as somebody else sees it: without an owner, who could control it.

        `known`: as this process measured it. Its owner gets that, unless another process has resumed the sweep since.
        """
        with self._database.transaction() as connection:
            head = select(sweeps.c.process, sweeps.c.owner).where(sweeps.c.id == sweep_id)
            found = connection.execute(head).one_or_none()
            if found is None or (known and (found.process, found.owner) == (self.process, digest(owner))):
                return known if found else None
            row = connection.execute(select(sweeps).where(sweeps.c.id == sweep_id)).one_or_none()
        return None if row is None else _read(row, owner if row.owner == digest(owner) else None)

    def delete(self, sweep_id: str) -> None:
        """Forget it."""
        with self._database.transaction(writes=True) as connection:
            connection.execute(delete(sweeps).where(sweeps.c.id == sweep_id))
        self._database.scrub()

    def _make_room(self, connection: Connection, owner: str, but: str) -> None:
        """Delete the owner's oldest sweeps, and the oldest of all, while they are too many or too large."""
        self._database.alone(connection)
        ended = sweeps.c.state.in_(OVER) & (sweeps.c.id != but)
        newest = select(sweeps.c.id).where(sweeps.c.owner == owner).order_by(sweeps.c.written.desc())
        stay = connection.execute(newest.limit(self._per_owner)).scalars().all()
        connection.execute(delete(sweeps).where(sweeps.c.owner == owner, ended, sweeps.c.id.not_in(stay)))
        total = int(connection.execute(select(func.coalesce(func.sum(sweeps.c.bytes), 0))).scalar_one())
        oldest = select(sweeps.c.id, sweeps.c.bytes).where(ended).order_by(sweeps.c.written)
        for one in connection.execute(oldest).all():
            if total <= self._total_bytes:
                return
            connection.execute(delete(sweeps).where(sweeps.c.id == one.id))
            total -= one.bytes


def _read(row: Row[Any], owner: str | None) -> Sweep | None:
    """The sweep of a row; None if another version wrote it."""
    try:
        rows = [MeasuredCase(**one) for one in json.loads(unpack(row.rows)[0])]
        order, about = ORDER.validate_json(row.ordered), json.loads(row.about)
    except (SpecdecError, KeyError, TypeError, ValueError, zlib.error):
        return None
    job = Sweep(
        id=row.id, owner=owner, order=order, kind=row.kind, state=row.state, error=row.error, rows=rows, about=about,
        stored=time.monotonic(),
    )  # fmt: skip
    if row.state not in OVER:
        job.elsewhere = not is_dead(row.process, time.time() - row.written, DEAD_S)
        if not job.elsewhere:
            job.state, job.error = "stopped", PROCESS_DIED
    if not job.elsewhere:
        job.over()
    return job
