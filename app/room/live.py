"""Who follows which room in this process, and how they learn of changes, also of those that another process made.

One task looks at the rooms that somebody follows: at once after a change made here, otherwise a few times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from app.records.database import Unavailable

from .pages import views_run
from .runs import together
from .runs.together import NOTHING, ClassRun, RunProgress
from .states import Room
from .store import Cast, Rooms
from .tally import Vote

log = logging.getLogger(__name__)

PACE_S = 0.25  # how often a followed room is looked at
GAP_S = 0.2  # a burst of votes is one look
ALIVE_S = 10.0


@dataclass(slots=True)
class Followed:
    """A room that somebody in this process follows. `room` is None once it is deleted."""

    room: Room | None = None
    votes: dict[str, dict[tuple[str, str, int], Vote]] = field(default_factory=dict)
    version: int = -1
    here: int = 0
    lost: int = 0
    away: bool = False
    said: RunProgress = NOTHING
    """What the run that the class follows has said."""
    shared: tuple[object, dict[str, Any]] = (None, {})
    seats: dict[str, int] = field(default_factory=dict)
    """The seats whose streams are open here, and how many each has."""
    hosts: int = 0
    streams: int = 0
    stepped: asyncio.Event = field(default_factory=asyncio.Event)
    """Fires when students' pages change."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Fires when anything changes."""

    def run(self, at: float) -> dict[str, Any] | None:
        """What every page shows of the class's run at this time, made once for all; None while there is none."""
        if self.room is None or self.room.now.state != "run":
            return None
        now = self.room.now
        key = self.version, self.said, views_run.moment(now, self.said, at)
        if self.shared[0] != key:
            self.shared = key, views_run.followed(now, self.said, self.all_votes(), at)
        return self.shared[1]

    def next_s(self, at: float) -> float | None:
        """Seconds until the pages show more of the class's run by themselves."""
        if self.room is None or self.room.now.state != "run" or self.room.now.run is None:
            return None
        now = self.room.now
        return together.next_s(self.room.now.run, now.since, now.until, self.said, at)

    def all_votes(self) -> list[Vote]:
        """Every vote of the room."""
        return [vote for mine in self.votes.values() for vote in mine.values()]

    def of(self, seat: str) -> list[Vote]:
        """One student's votes."""
        return list(self.votes.get(seat, {}).values())


class Live:
    """The followed rooms of this process."""

    def __init__(
        self, rooms: Callable[[], Rooms], said: Callable[[ClassRun | None], RunProgress] = lambda run: NOTHING
    ) -> None:
        """`said` looks up what a room's run has said."""
        self._rooms, self._said = rooms, said
        self._followed: dict[str, Followed] = {}
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Cast, asyncio.Future[str | None]]] = []
        self._writing: asyncio.Task[None] | None = None

    @property
    def streams(self) -> int:
        """How many streams are open in this process."""
        return sum(each.streams for each in self._followed.values())

    def room(self, code: str, seat: str = "") -> Room | None:
        """The room as it was a moment ago, if somebody follows it here; with a seat, if that student does."""
        found = self._followed.get(code)
        return found.room if found is not None and (not seat or seat in found.seats) else None

    @contextlib.asynccontextmanager
    async def follow(self, code: str, *, seat: str = "", host: bool = False) -> AsyncIterator[Followed]:
        """The room as it is now; it stays current until the end of the block."""
        found = self._followed.get(code)
        if found is None:
            found = self._followed[code] = Followed()
        found.streams += 1
        found.hosts += host
        if seat:
            found.seats[seat] = found.seats.get(seat, 0) + 1
        try:
            if found.room is None:
                await self._look(code, found)
            self._begin()
            if host or seat:
                await asyncio.to_thread(self._rooms().alive, code, [seat] if seat else [], host)
                self.touch()
            yield found
        finally:
            found.streams -= 1
            found.hosts -= host
            if seat:
                found.seats[seat] -= 1
                if not found.seats[seat]:
                    del found.seats[seat]
            if not found.streams and self._followed.get(code) is found:
                del self._followed[code]

    async def cast(self, vote: Cast) -> str | None:
        """Store a vote, together with those that arrive meanwhile; None once it is stored, or the reason why not."""
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((vote, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                found = await asyncio.to_thread(self._rooms().cast, [vote for vote, _ in batch])
            except Exception as error:  # everybody who waits has to learn of it
                for _, done in batch:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), reason in zip(batch, found, strict=True):
                if not done.done():
                    done.set_result(reason)
            self.touch()

    def touch(self) -> None:
        """Look at once: something was changed here."""
        if self._wake is not None:
            self._wake.set()

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._wake = asyncio.Event()
            self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Look at all followed rooms until there are none."""
        told = 0.0
        assert self._wake is not None
        while self._followed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), PACE_S)
            self._wake.clear()
            alive = time.monotonic() - told > ALIVE_S
            told = time.monotonic() if alive else told
            for code, found in list(self._followed.items()):
                try:
                    if alive:
                        await asyncio.to_thread(self._rooms().alive, code, set(found.seats), found.hosts > 0)
                    await self._look(code, found)
                except Unavailable:
                    pass  # it has been logged; the next look may succeed
            await asyncio.sleep(GAP_S)

    async def _look(self, code: str, found: Followed) -> None:
        new = await asyncio.to_thread(self._rooms().news, code, found.version)
        if new is None:
            stepped = changed = found.room is not None
            found.room = None
        else:
            room, votes, here, lost, away = new
            running = room.now.state == "run"
            said = await asyncio.to_thread(self._said, room.now.run) if running else NOTHING
            stepped = found.room is None or found.room.now != room.now
            stepped = stepped or found.away != away or found.said != said
            changed = stepped or (found.version, found.here, found.lost) != (room.version, here, lost)
            for vote in votes:
                found.votes.setdefault(vote.student, {})[vote.lesson, vote.part, vote.vote] = vote
            found.room, found.version, found.said, found.here = room, room.version, said, here
            found.lost, found.away = lost, away
        if stepped:
            found.stepped.set()
            found.stepped = asyncio.Event()
        if changed:
            found.changed.set()
            found.changed = asyncio.Event()
