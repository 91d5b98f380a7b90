"""The rooms in the database: what is acknowledged is stored, and every web process sees the same.

Each change locks its room's row and counts its version up, so that whoever asks with an old version learns of it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from app.records.database import Database
from app.records.keys import digest

from . import codes
from .schema import rooms, seats, votes
from .states import KEPT_S, Now, Room, RoomRefused, ended
from .tally import OWN, PAPER, Vote

MOST_SEATS = 600
MOST_ROOMS = 2_000
MOST_LESSONS = 40
HERE_S = 40.0  # a student counts as here so long after the last sign of life
AWAY_S = 60.0  # and the host as away


@dataclass(frozen=True, slots=True)
class Cast:
    """A vote on its way to the database."""

    code: str
    seat: str
    lesson: str
    part: str
    vote: int
    given: Any
    right: bool


class Rooms:
    """All rooms. Every method raises `Unavailable` where the database fails."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    def create(self, lessons: Sequence[str], language: str, named: bool) -> tuple[str, str]:
        """A new room: its code, and the host's secret, which is not kept.

        Raises:
            Refused: if there are too many.
        """
        secret, now = codes.token(), self._clock()
        with self._database.transaction(writes=True) as connection:
            self._database.alone(connection, 6)
            if connection.execute(select(func.count()).select_from(rooms)).scalar_one() >= MOST_ROOMS:
                raise RoomRefused("This server has no room left for another class; try again tomorrow.")
            taken = set(connection.execute(select(rooms.c.code)).scalars())
            code = next(code for code in iter(codes.code, None) if code not in taken)
            connection.execute(
                insert(rooms).values(
                    code=code,
                    host=digest(secret),
                    host_seen=now,
                    created=now,
                    language=language,
                    named=named,
                    lessons=json.dumps(list(lessons)[:MOST_LESSONS]),
                    now=json.dumps(Now(since=now).to_json()),
                    version=0,
                )
            )
        return code, secret

    def room(self, code: str) -> Room | None:
        """The room with that code."""
        with self._database.transaction() as connection:
            row = connection.execute(select(rooms).where(rooms.c.code == code)).one_or_none()
        return None if row is None else _room(row, self._clock())

    def hosts(self, code: str, secret: str) -> bool:
        """Whether this is the secret of the room's host."""
        with self._database.transaction() as connection:
            kept = connection.execute(select(rooms.c.host).where(rooms.c.code == code)).scalar()
        return kept is not None and secrets.compare_digest(kept, digest(secret))

    def drive(self, code: str, change: Callable[[Room, float], Room]) -> Room:
        """The room after the host's change.

        Raises:
            Refused: if there is no such room, or the change does not apply.
        """
        now = self._clock()
        with self._database.transaction(writes=True) as connection:
            found = self._locked(connection, code)
            new = replace(change(found, now), version=found.version + 1)
            connection.execute(
                update(rooms)
                .where(rooms.c.code == code)
                .values(
                    now=json.dumps(new.now.to_json()),
                    lessons=json.dumps(new.order[:MOST_LESSONS]),
                    version=new.version,
                    host_seen=now,
                )
            )
        return new

    def join(self, code: str, token: str, name: str) -> None:
        """Take a seat; with the token of one, nothing but its name changes.

        Raises:
            Refused: if the room has ended or is full.
        """
        with self._database.transaction(writes=True) as connection:
            room = self._locked(connection, code)
            if room.now.state == "ended":
                raise RoomRefused("This room has ended.")
            seat, kept = digest(token), codes.name(name) if room.named else ""
            known = select(seats.c.seat).where(seats.c.room == code, seats.c.seat == seat)
            if connection.execute(known).scalar() is not None:
                connection.execute(
                    update(seats).where(seats.c.room == code, seats.c.seat == seat).values(name=kept)
                )
                return
            taken = connection.execute(
                select(func.count()).select_from(seats).where(seats.c.room == code)
            ).scalar_one()
            if taken >= MOST_SEATS:
                raise RoomRefused("This room is full.")
            row = {"room": code, "seat": seat, "name": kept, "seen": self._clock(), "lost": -1}
            connection.execute(insert(seats).values(row))
            _count_up(connection, room)

    def seated(self, code: str, token: str) -> str | None:
        """The seat that this token has in the room."""
        seat = digest(token)
        with self._database.transaction() as connection:
            found: str | None = connection.execute(
                select(seats.c.seat).where(seats.c.room == code, seats.c.seat == seat)
            ).scalar()
        return found

    def cast(self, casts: Sequence[Cast]) -> list[str | None]:
        """Store votes in one transaction; for each None, or the sentence that says why it does not count."""
        found: dict[int, str | None] = {}
        with self._database.transaction(writes=True) as connection:
            for code in dict.fromkeys(cast.code for cast in casts):
                mine = [(at, cast) for at, cast in enumerate(casts) if cast.code == code]
                reasons = self._cast(connection, code, [cast for _, cast in mine])
                found.update(zip((at for at, _ in mine), reasons, strict=True))
        return [found[at] for at in range(len(casts))]

    def _cast(self, connection: Connection, code: str, casts: Sequence[Cast]) -> list[str | None]:
        """The same for one room, whose locked row keeps other processes from writing meanwhile."""
        at = self._clock()
        try:
            room = self._locked(connection, code)
        except RoomRefused as error:
            return [str(error)] * len(casts)
        asks = room.now.votes_on(at)
        voted: set[str] = set()
        if asks is not None:
            lesson, part, number = asks
            same = (votes.c.lesson == lesson) & (votes.c.part == part) & (votes.c.vote == number)
            voted = set(connection.execute(select(votes.c.seat).where(votes.c.room == code, same)).scalars())
        reasons: list[str | None] = []
        rows: list[dict[str, Any]] = []
        for cast in casts:
            if (cast.lesson, cast.part, cast.vote) != asks:
                reasons.append("This question is closed; your answer came too late.")
            elif cast.seat in voted:
                reasons.append("You have already answered; an answer that is locked in stays.")
            else:
                voted.add(cast.seat)
                reasons.append(None)
                rows.append(_row(cast, room, at))
        if rows:
            connection.execute(insert(votes), rows)
            _count_up(connection, room)
        return reasons

    def raised(self, code: str, counted: Sequence[tuple[Any, bool, int]]) -> None:
        """Cards counted by hand, for the vote that the room is at: an answer, whether it is right, and how many.

        Raises:
            Refused: if there is no such room.
        """
        now = self._clock()
        with self._database.transaction(writes=True) as connection:
            room = self._locked(connection, code)
            here = room.now
            for given, right, number in counted:
                self._database.put(
                    connection,
                    votes,
                    room=code,
                    seat=f"{PAPER} {given}",
                    lesson=here.lesson,
                    part=here.part,
                    vote=here.vote,
                    version=room.version + 1,
                    given=json.dumps(given),
                    correct=right,
                    seconds=max(0.0, now - here.since),
                    at=now,
                    cards=number,
                )
            _count_up(connection, room)

    def ran(self, code: str, seat: str, lesson: str, result: Mapping[str, Any]) -> None:
        """What a student's own run measured; the fastest of a lesson and a model is kept."""
        now = self._clock()
        with self._database.transaction(writes=True) as connection:
            room = self._locked(connection, code)
            mine = (votes.c.room == code) & (votes.c.seat == seat) & (votes.c.part == OWN)
            kept = connection.execute(select(votes.c.given).where(mine, votes.c.lesson == lesson)).scalar()
            before = json.loads(kept) if kept is not None else None
            if before and before["model"] == result["model"] and before["speed"] >= result["speed"]:
                return
            self._database.put(
                connection,
                votes,
                room=code,
                seat=seat,
                lesson=lesson,
                part=OWN,
                vote=1,
                version=room.version + 1,
                given=json.dumps(dict(result)),
                correct=True,
                seconds=max(0.0, now - room.now.since),
                at=now,
                cards=1,
            )
            _count_up(connection, room)

    def lost(self, code: str, seat: str, step: int) -> None:
        """A student is lost at this step; it counts once."""
        with self._database.transaction(writes=True) as connection:
            room = self._locked(connection, code)
            mine = (seats.c.room == code) & (seats.c.seat == seat)
            connection.execute(update(seats).where(mine).values(lost=step))
            _count_up(connection, room)

    def alive(self, code: str, present: Collection[str], host: bool) -> None:
        """Note that these seats, and perhaps the host, have their page open."""
        now = self._clock()
        with self._database.transaction(writes=True) as connection:
            if present:
                here = (seats.c.room == code) & seats.c.seat.in_(list(present))
                connection.execute(update(seats).where(here).values(seen=now))
            if host:
                connection.execute(update(rooms).where(rooms.c.code == code).values(host_seen=now))

    def news(self, code: str, since: int) -> tuple[Room, list[Vote], int, int, bool] | None:
        """The room, its votes after that version, how many are here and how many lost, and whether the host is away."""
        now = self._clock()
        with self._database.transaction() as connection:
            row = connection.execute(select(rooms).where(rooms.c.code == code)).one_or_none()
            if row is None:
                return None
            room = _room(row, now)
            new = connection.execute(
                select(votes).where(votes.c.room == code, votes.c.version > since).order_by(votes.c.version)
            ).all()
            counted = select(func.count()).select_from(seats).where(seats.c.room == code)
            here = connection.execute(counted.where(seats.c.seen > now - HERE_S)).scalar_one()
            lost = connection.execute(counted.where(seats.c.lost == room.now.step)).scalar_one()
        return room, [_vote(each) for each in new], here, lost, now - row.host_seen > AWAY_S

    def names(self, code: str) -> dict[str, str]:
        """The nicknames by seat."""
        with self._database.transaction() as connection:
            found = connection.execute(select(seats.c.seat, seats.c.name).where(seats.c.room == code)).all()
        return {row.seat: row.name for row in found}

    def delete(self, code: str) -> list[str]:
        """Delete the room with its seats and votes, also from the database's log; returns its seats."""
        with self._database.transaction(writes=True) as connection:
            seated = list(connection.execute(select(seats.c.seat).where(seats.c.room == code)).scalars())
            connection.execute(delete(rooms).where(rooms.c.code == code))
        self._database.scrub()
        return seated

    def outdated(self) -> list[str]:
        """The codes of rooms that have been kept for long enough."""
        with self._database.transaction() as connection:
            old = select(rooms.c.code).where(rooms.c.created < self._clock() - KEPT_S)
            return list(connection.execute(old).scalars())

    def _locked(self, connection: Connection, code: str) -> Room:
        row = connection.execute(select(rooms).where(rooms.c.code == code).with_for_update()).one_or_none()
        if row is None:
            raise RoomRefused("There is no room with this code.")
        return _room(row, self._clock())


def _row(cast: Cast, room: Room, at: float) -> dict[str, Any]:
    return {
        "room": cast.code,
        "seat": cast.seat,
        "lesson": cast.lesson,
        "part": cast.part,
        "vote": cast.vote,
        "version": room.version + 1,
        "given": json.dumps(cast.given),
        "correct": cast.right,
        "seconds": max(0.0, at - room.now.since),
        "at": at,
        "cards": 1,
    }


def _count_up(connection: Connection, room: Room) -> None:
    connection.execute(update(rooms).where(rooms.c.code == room.code).values(version=room.version + 1))


def _room(row: Row[Any], at: float) -> Room:
    now = ended(Now.from_json(json.loads(row.now)), row.created, at)
    return Room(
        row.code, row.created, row.language, row.named, tuple(json.loads(row.lessons)), now, row.version
    )


def _vote(row: Row[Any]) -> Vote:
    given = json.loads(row.given)
    return Vote(row.seat, row.lesson, row.part, row.vote, given, row.correct, row.seconds, row.at, row.cards)
