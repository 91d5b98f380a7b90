"""The tables of the database.

`migrations/` makes them, one file for each change. Never change a released one; add one.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    TypeDecorator,
)
from sqlalchemy import String as _String


class String(TypeDecorator[str]):
    """Text. PostgreSQL cannot store the character 0, nor half a surrogate pair: they are replaced."""

    impl = _String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.replace("\0", "␀").encode(errors="replace").decode()


metadata = MetaData()
runs = Table(
    "runs",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),  # a digest: the file alone does not reveal who may delete a run
    Column("created", Float, nullable=False),  # seconds since 1970, UTC
    Column("name", String),
    Column("prompt", String, nullable=False),
    Column("origin", String, nullable=False),  # measured (by this server) or imported
    Column("machine", String, nullable=False),
    Column("recorded", String, nullable=False),  # the date in the trace itself
    Column("bytes", Integer, nullable=False),
    Column("link", String),  # what a shared link names; None while not shared
    Column("request", String),  # the request as JSON (keeping.py); None for imports and older files
)
Index("runs_of_owner", runs.c.owner, runs.c.created)
Index("runs_by_link", runs.c.link, unique=True)
lanes = Table(
    "lanes",
    metadata,
    Column("run", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("lane", Integer, primary_key=True),
    Column("label", String, nullable=False),
    Column("proposer", String, nullable=False),
    Column("rule", String, nullable=False),
    Column("lossy", Boolean, nullable=False),
    Column("target", String, nullable=False),
    Column("draft", String),
    Column("tokens", Integer, nullable=False),
    Column("passes", Integer, nullable=False),
    Column("acceptance", Float),
    Column("tokens_per_pass", Float),
    Column("tokens_per_second", Float),
    Column("speedup", Float),
    Column("end", String, nullable=False),
    Column("problem", String),  # the first sentence of the trace's audit, if it has any
    Column("trace", LargeBinary, nullable=False),  # its JSON, packed by zlib
    Column("firm", Boolean),  # None also where it was not asked (summary.py)
)

course = Table(
    "course",
    metadata,
    Column("owner", String, primary_key=True),
    Column("progress", String, nullable=False),  # as JSON (app/course/progress.py)
)

secrets = Table(
    "secrets",  # of this server; drawn by the process that needs one first
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)
unsigned = Table(
    "unsigned",  # owners from before cookies were signed, whose cookie is still accepted (visitor.py)
    metadata,
    Column("owner", String, primary_key=True),
)
processes = Table(
    "processes",  # web processes, and when each was last alive
    metadata,
    Column("id", String, primary_key=True),
    Column("seen", Float, nullable=False),
)
journal = Table(
    "journal",  # runs that any web process can show while and after they run (journal.py)
    metadata,
    Column("id", String, primary_key=True),
    Column("process", String, nullable=False),  # where it runs
    Column("owner", String),  # a digest, as in `runs`
    Column("ticket", String),  # likewise
    Column("created", Float, nullable=False),
    Column("request", String, nullable=False),
    Column("count", Integer, nullable=False),  # of its messages so far
    Column("bytes", Integer, nullable=False),
    Column("ended", Float),
    Column("lost", Boolean, nullable=False),  # whether its process died before its end
)
Index("journal_by_age", journal.c.ended)
messages = Table(
    "messages",  # of those runs, in batches
    metadata,
    Column("run", String, ForeignKey("journal.id", ondelete="CASCADE"), primary_key=True),
    Column("first", Integer, primary_key=True),  # the number of the first one
    Column("count", Integer, nullable=False),
    Column("packed", LargeBinary, nullable=False),  # as JSON, one a line, packed by zlib
)
sweeps = Table(
    "sweeps",  # with what they have measured so far (app/compare/sweep_store.py)
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),  # a digest, as in `runs`
    Column("process", String, nullable=False),  # which measures it, or did
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("error", String),
    Column("ordered", String, nullable=False),  # what to sweep, as JSON
    Column("about", String, nullable=False),  # models, machine, versions, date, as JSON
    Column("rows", LargeBinary, nullable=False),  # as JSON, packed by zlib
    Column("bytes", Integer, nullable=False),
    Column("written", Float, nullable=False),  # seconds since 1970
    Column(
        "version", Integer, nullable=False, default=1
    ),  # this and the next two: earlier versions read them
    Column("watched", Integer, nullable=False, default=0),
    Column("stop", Boolean, nullable=False, default=False),
)
Index("sweeps_by_age", sweeps.c.written)
