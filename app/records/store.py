"""The library: runs kept for their owner, with their traces, within limits.

An owner is a secret (see `visitor.py`) of which only a digest is kept. Everything that lists, names, shares or deletes
requires it; somebody else's run and one that does not exist get the same answer. A shared link gives read access to
one run.
Safe to use from several threads, and by several processes on one database.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from .database import Database
from .keys import digest
from .schema import course, lanes, runs
from .summary import COLUMNS, Summary

Origin = Literal["measured", "imported"]
MAX_NAME = 80  # characters
USUAL_BYTES = 500_000  # more than most runs take
STAYS = runs.c.name.is_not(None) | runs.c.link.is_not(None) | (runs.c.origin == "imported")


class Full(ValueError):
    """There is no room for one more run, or one more that stays; its text can be shown."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits: runs and bytes (packed) of one owner, bytes of all owners together, and of those the bytes that named
    and shared runs may take, so that nobody can fill the library with runs that are never deleted."""

    runs: int = 200
    owner_bytes: int = 100_000_000
    all_bytes: int = 2_000_000_000
    pinned_bytes: int = 1_600_000_000

    @classmethod
    def within(cls, all_bytes: int) -> Limits:
        """The limits for a library of this size."""
        return cls(
            owner_bytes=min(cls().owner_bytes, all_bytes),
            all_bytes=all_bytes,
            pinned_bytes=all_bytes * 4 // 5,
        )


@dataclass(frozen=True, slots=True)
class Saved:
    """A kept run without its traces. `created` is in seconds since 1970; `link` is set while the run is shared."""

    id: str
    created: float
    name: str | None
    prompt: str
    origin: Origin
    machine: str
    recorded: str
    bytes: int
    link: str | None
    request: str | None
    lanes: tuple[Summary, ...]


class Library:
    """All kept runs. Every method raises `Unavailable` where the database fails."""

    def __init__(self, database: Database | Path | str | None = None, limits: Limits | None = None) -> None:
        """The library in an open database, or in the one at a path or URL; None keeps it in memory.

        Raises:
            LibraryError: one sentence, if there can be none.
        """
        self.limits = limits or Limits()
        self._database = database if isinstance(database, Database) else Database(database)

    @property
    def lasting(self) -> bool:
        """Whether it outlives this process."""
        return self._database.lasting

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def add(
        self,
        owner: str,
        prompt: str,
        kept: Sequence[tuple[Summary, bytes]],
        *,
        origin: Origin,
        machine: str,
        recorded: str,
        run_id: str | None = None,
        name: str | None = None,
        request: str | None = None,
    ) -> str:
        """Keep a run: for each lane its summary and its trace as JSON, and the request. Returns its id.

        At the limits, the oldest runs that are neither named, shared nor imported make room.

        Raises:
            Full: if named, shared and imported runs leave no room, or no more may be named; nothing is changed then.
        """
        run_id = run_id or secrets.token_urlsafe(12)
        packed = [zlib.compress(json) for _, json in kept]
        size = sum(map(len, packed)) + len(prompt.encode()) + len((request or "").encode())
        whose = digest(owner)
        row = {
            "id": run_id,
            "owner": whose,
            "created": time.time(),
            "name": _name(name),
            "prompt": prompt,
            "origin": origin,
            "machine": machine,
            "recorded": recorded,
            "bytes": size,
            "request": request,
        }
        with self._database.transaction(writes=True) as connection:
            self._make_room(connection, whose, size)
            if row["name"] or origin == "imported":
                self._pin(connection, size)
            connection.execute(insert(runs).values(row))
            for lane, ((summary, _), trace) in enumerate(zip(kept, packed, strict=True)):
                columns = {column: getattr(summary, column) for column in COLUMNS}
                connection.execute(insert(lanes).values(run=run_id, lane=lane, trace=trace, **columns))
        return run_id

    def runs_of(self, owner: str) -> list[Saved]:
        """The owner's runs, newest first."""
        return self._find(runs.c.owner == digest(owner))

    def get(self, owner: str, run_id: str) -> Saved | None:
        """A run of this owner."""
        return next(iter(self._find((runs.c.id == run_id) & (runs.c.owner == digest(owner)))), None)

    def shared(self, link: str) -> Saved | None:
        """The run that a shared link opens."""
        return next(iter(self._find(runs.c.link == link)), None)

    def trace(self, key: str, lane: int, owner: str | None) -> bytes | None:
        """A lane's trace as JSON; `key` is a shared link, or the id of a run of `owner`."""
        mine = (runs.c.id == key) & (runs.c.owner == digest(owner)) if owner else runs.c.id.is_(None)
        wanted = select(lanes.c.trace).join(runs).where((runs.c.link == key) | mine, lanes.c.lane == lane)
        with self._database.transaction() as connection:
            found = connection.execute(wanted).scalar()
        return zlib.decompress(found) if found is not None else None

    def rename(self, owner: str, run_id: str, name: str) -> bool:
        """Name a run, or remove its name with an empty one; returns whether there was such a run.

        Raises:
            Full: if no more runs may be named.
        """
        with self._database.transaction(writes=True) as connection:
            mine = (runs.c.id == run_id) & (runs.c.owner == digest(owner))
            if given := _name(name):
                self._pin(connection, _unpinned(connection, mine))
            return connection.execute(update(runs).where(mine).values(name=given)).rowcount > 0

    def share(self, owner: str, run_id: str) -> str | None:
        """The link that opens this run for everybody, created on demand; None if there is no such run.

        Raises:
            Full: if no more runs may be shared.
        """
        with self._database.transaction(writes=True) as connection:
            mine = (runs.c.id == run_id) & (runs.c.owner == digest(owner))
            self._pin(connection, _unpinned(connection, mine))
            connection.execute(
                update(runs).where(mine, runs.c.link.is_(None)).values(link=secrets.token_urlsafe(18))
            )
            link: str | None = connection.execute(select(runs.c.link).where(mine)).scalar()
        return link

    def revoke(self, owner: str, run_id: str) -> bool:
        """Revoke the run's link; returns whether there was such a run."""
        return self._change(owner, run_id, link=None)

    def delete(self, owner: str, run_id: str) -> bool:
        """Delete a run with its traces; its bytes are overwritten and freed. Returns whether there was such a run."""
        with self._database.transaction(writes=True) as connection:
            mine = (runs.c.id == run_id) & (runs.c.owner == digest(owner))
            gone = connection.execute(delete(runs).where(mine)).rowcount > 0
        if gone:
            self._database.scrub()
        return gone

    def progress(self, owner: str) -> str | None:
        """What this owner did in the course, as it was kept."""
        with self._database.transaction() as connection:
            found: str | None = connection.execute(
                select(course.c.progress).where(course.c.owner == digest(owner))
            ).scalar()
        return found

    def keep_progress(self, owner: str, progress: str) -> None:
        """Keep what this owner did in the course, in place of what was kept before."""
        with self._database.transaction(writes=True) as connection:
            self._database.put(connection, course, owner=digest(owner), progress=progress)

    def size(self, owner: str | None = None) -> int:
        """Bytes kept for this owner, or for all."""
        with self._database.transaction() as connection:
            return _size(connection, digest(owner) if owner else None)

    def is_full(self, owner: str) -> bool:
        """Whether the owner's next run would not fit, because everything kept is named or shared."""
        saved = self.runs_of(owner)
        room = self.limits.owner_bytes - sum(run.bytes for run in saved)
        stays = all(run.name or run.link or run.origin == "imported" for run in saved)
        return bool(saved) and stays and (len(saved) >= self.limits.runs or room < USUAL_BYTES)

    def _find(self, where: Any) -> list[Saved]:
        wanted = (
            select(*(column for column in runs.c if column is not runs.c.owner), lanes.c.lane)
            .add_columns(*(lanes.c[column] for column in COLUMNS))
            .join(lanes)
            .where(where)
            .order_by(runs.c.created.desc(), runs.c.id, lanes.c.lane)
        )
        with self._database.transaction() as connection:
            rows = connection.execute(wanted).all()
        return [_saved(list(group)) for _, group in groupby(rows, lambda row: row.id)]

    def _change(self, owner: str, run_id: str, **values: Any) -> bool:
        with self._database.transaction(writes=True) as connection:
            mine = (runs.c.id == run_id) & (runs.c.owner == digest(owner))
            return connection.execute(update(runs).where(mine).values(**values)).rowcount > 0

    def _pin(self, connection: Connection, size: int) -> None:
        """Refuse `size` more bytes of runs that are never deleted automatically, where they would be too many."""
        self._database.alone(connection)
        held = connection.execute(select(func.coalesce(func.sum(runs.c.bytes), 0)).where(STAYS)).scalar_one()
        if size and held + size > self.limits.pinned_bytes:
            raise Full(
                "This server keeps no more named, shared or imported runs: they are never deleted automatically, and "
                "some room stays for everybody's latest. Download the run, or delete named ones of your own."
            )

    def _make_room(self, connection: Connection, owner: str, size: int) -> None:
        """Delete the oldest runs that do not stay until one more of `size` bytes fits."""
        self._database.alone(connection)
        limits = self.limits
        count = connection.execute(
            select(func.count()).select_from(runs).where(runs.c.owner == owner)
        ).scalar_one()
        lacking = _size(connection, owner) + size - limits.owner_bytes
        self._evict(connection, runs.c.owner == owner, count + 1 - limits.runs, lacking, "Your library is")
        lacking = _size(connection, None) + size - limits.all_bytes
        self._evict(connection, runs.c.id.is_not(None), 0, lacking, "This server's library is")

    def _evict(self, connection: Connection, where: Any, number: int, lacking: int, whose: str) -> None:
        oldest = connection.execute(
            select(runs.c.id, runs.c.bytes).where(where, ~STAYS).order_by(runs.c.created)
        )
        for row in oldest.all():
            if number <= 0 and lacking <= 0:
                return
            connection.execute(delete(runs).where(runs.c.id == row.id))
            number, lacking = number - 1, lacking - row.bytes
        if number > 0 or lacking > 0:
            raise Full(
                f"{whose} full: it keeps up to {self.limits.runs} runs and {self.limits.owner_bytes // 10**6} MB of "
                "one visitor, and what is named, shared or imported is never deleted automatically. Delete some to "
                "keep new ones."
            )


def _saved(rows: Sequence[Row[Any]]) -> Saved:
    first = rows[0]
    return Saved(
        id=first.id,
        created=first.created,
        name=first.name,
        prompt=first.prompt,
        origin=first.origin,
        machine=first.machine,
        recorded=first.recorded,
        bytes=first.bytes,
        link=first.link,
        request=first.request,
        lanes=tuple(Summary(**{column: getattr(row, column) for column in COLUMNS}) for row in rows),
    )


def _size(connection: Connection, owner: str | None) -> int:
    mine = runs.c.owner == owner if owner else runs.c.id.is_not(None)
    return int(connection.execute(select(func.coalesce(func.sum(runs.c.bytes), 0)).where(mine)).scalar_one())


def _unpinned(connection: Connection, mine: Any) -> int:
    """Bytes of a run that does not stay yet; 0 if it does, or does not exist."""
    free = select(func.coalesce(func.sum(runs.c.bytes), 0)).where(mine, ~STAYS)
    return int(connection.execute(free).scalar_one())


def _name(name: str | None) -> str | None:
    return " ".join((name or "").split())[:MAX_NAME] or None
