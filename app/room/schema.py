"""The tables of the rooms; `records/migrations` makes them."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, Table

from app.records.schema import String, metadata

rooms = Table(
    "rooms",
    metadata,
    Column("code", String, primary_key=True),
    Column("host", String, nullable=False),  # a digest of the host's secret
    Column("host_seen", Float, nullable=False),  # seconds since 1970, as all times here
    Column("created", Float, nullable=False),
    Column("language", String, nullable=False),
    Column("named", Boolean, nullable=False),  # whether students may give a nickname
    Column("lessons", String, nullable=False),  # their ids in order, as JSON
    Column("now", String, nullable=False),  # states.Now as JSON
    Column(
        "version", Integer, nullable=False
    ),  # grows with every change of the room, its seats and its votes
)
Index("rooms_by_age", rooms.c.created)
seats = Table(
    "seats",
    metadata,
    Column("room", String, ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
    Column("seat", String, primary_key=True),  # a digest of the token in the student's browser
    Column("name", String, nullable=False),
    Column("seen", Float, nullable=False),
    Column("lost", Integer, nullable=False),  # the step at which “I'm lost” was pressed last; -1 if never
)
votes = Table(
    "votes",
    metadata,
    Column("room", String, ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
    Column("seat", String, primary_key=True),
    Column("lesson", String, primary_key=True),
    Column("part", String, primary_key=True),  # predict or check
    Column("vote", Integer, primary_key=True),  # the first or the second
    Column("version", Integer, nullable=False),  # of the room with this vote: later ones have larger numbers
    Column("given", String, nullable=False),  # as JSON
    Column("correct", Boolean, nullable=False),
    Column("seconds", Float, nullable=False),  # from the question to the answer
    Column("at", Float, nullable=False),
    Column("cards", Integer, nullable=False),  # how many raised this card; 1 for a student
)
Index("votes_by_version", votes.c.room, votes.c.version)
