"""The library's file: its tables, the migrations between versions, and how it is opened.

The version is stored in the file itself (`PRAGMA user_version`). A file of an older version is migrated when it is
opened; one of a newer version, of another program, or not a database at all, is rejected with a sentence.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    StaticPool,
    String,
    Table,
    create_engine,
    event,
)
from sqlalchemy.exc import DBAPIError

APPLICATION = 0x5350_4C42  # "SPLB": marks the file as ours, in SQLite's application id
BUSY_S = 10.0  # how long a process waits for another's write

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
)

course = Table(
    "course",
    metadata,
    Column("owner", String, primary_key=True),
    Column("progress", String, nullable=False),  # as JSON (app/course/progress.py)
)

# One migration per version, from the version before it. Never change a released one; add one.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs (
            id VARCHAR NOT NULL PRIMARY KEY, owner VARCHAR NOT NULL, created FLOAT NOT NULL, name VARCHAR,
            prompt VARCHAR NOT NULL, origin VARCHAR NOT NULL, machine VARCHAR NOT NULL, recorded VARCHAR NOT NULL,
            bytes INTEGER NOT NULL)""",
        "CREATE INDEX runs_of_owner ON runs (owner, created)",
        """CREATE TABLE lanes (
            run VARCHAR NOT NULL, lane INTEGER NOT NULL,
            label VARCHAR NOT NULL, proposer VARCHAR NOT NULL, rule VARCHAR NOT NULL, lossy BOOLEAN NOT NULL,
            target VARCHAR NOT NULL, draft VARCHAR, tokens INTEGER NOT NULL, passes INTEGER NOT NULL,
            acceptance FLOAT, tokens_per_pass FLOAT, tokens_per_second FLOAT, speedup FLOAT, "end" VARCHAR NOT NULL,
            problem VARCHAR, trace BLOB NOT NULL, PRIMARY KEY (run, lane),
            FOREIGN KEY (run) REFERENCES runs (id) ON DELETE CASCADE)""",
    ),
    (
        "ALTER TABLE runs ADD COLUMN link VARCHAR",
        "CREATE UNIQUE INDEX runs_by_link ON runs (link)",
    ),
    ("ALTER TABLE runs ADD COLUMN request VARCHAR",),
    ("CREATE TABLE course (owner VARCHAR NOT NULL PRIMARY KEY, progress VARCHAR NOT NULL)",),
)
VERSION = len(MIGRATIONS)


class LibraryError(ValueError):
    """The library's file cannot be used; its text is one sentence for the operator."""


def connect(path: Path | None) -> Engine:
    """The library's database at `path`, migrated to the current version; None keeps it in memory.

    Raises:
        LibraryError: one sentence, if the file cannot be created, or is not a library this program reads.
    """
    if path is None:
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size:
                _check(path)
        except OSError as error:
            raise LibraryError(f"{_asked(path)}, but its folder cannot be made: {error.strerror}.") from None
        except sqlite3.DatabaseError as error:
            raise _unusable(path, error) from None
        engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    try:
        with engine.execution_options(writes=True).begin() as connection:
            _upgrade(connection)
    except DBAPIError as error:
        engine.dispose()
        raise _unusable(path, error.orig) from None
    return engine


def _check(path: Path) -> None:
    """Reject a file that is not ours before changing anything in it."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as file:
        (owner,), (version,) = (
            file.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
    if owner != APPLICATION:
        raise LibraryError(f"{_asked(path)}, but that file belongs to another program; name another.")
    if version > VERSION:
        raise LibraryError(
            f"{_asked(path)}, but that library has version {version} and this program reads up to {VERSION}; "
            "run the newer program, or name another file."
        )


def _unusable(path: Path | None, error: object) -> LibraryError:
    if "not a database" in str(error):
        return LibraryError(f"{_asked(path)}, but that file is no SQLite database; name another.")
    return LibraryError(
        f"{_asked(path)}, but it cannot be opened for writing ({error}); name a file in a folder that this server "
        "may write to, or leave SPECDEC_LIBRARY empty to keep the library in memory."
    )


def _prepare(raw: Any, _record: Any) -> None:
    raw.isolation_level = None  # transactions begin where `_begin` says, not where the driver would begin one
    for pragma in (
        "auto_vacuum = FULL",  # before the first table: a deleted run's bytes go back to the disk
        "secure_delete = ON",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        raw.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    # A writer takes its lock at once: one that reads first and then writes could not wait for another's.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _upgrade(connection: Connection) -> None:
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version >= VERSION:
        return
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
    connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")


def _asked(path: Path | None) -> str:
    return f"The library is to be kept in {path} (SPECDEC_LIBRARY)"
