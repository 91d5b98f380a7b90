"""The one SQL database of the app: how it is opened, brought up to date, read and written.

SQLite keeps it in a file (or in memory) without any set-up; PostgreSQL shares it between several web processes.
`schema.py` declares the tables, `migrations/` makes them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, inspect, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.schema import Table

log = logging.getLogger(__name__)
logging.getLogger("alembic").setLevel(
    logging.WARNING
)  # it reports every step of an upgrade; `_upgrade` says it once

MIGRATIONS = Path(__file__).with_name("migrations")
VERSION = max(int(path.name[1:5]) for path in (MIGRATIONS / "versions").glob("r*.py"))
APPLICATION = 0x5350_4C42  # "SPLB": marks a file as ours (application id), and our locks (advisory ones)
BUSY_S = 10.0  # how long a process waits for another's write
POOL = 10  # connections of one process to PostgreSQL


class LibraryError(ValueError):
    """The database cannot be used; its text is one sentence for the operator."""


class Unavailable(RuntimeError):
    """The database cannot be read or written right now; its text can be shown."""


class Database:
    """An open database. Safe to use from several threads, and by several processes."""

    def __init__(self, place: Path | str | None = None) -> None:
        """Open the SQLite file at a path, or what a URL names; None keeps everything in memory.

        Raises:
            LibraryError: one sentence, if it cannot be opened, or is not a database this program reads.
        """
        self.url, self._asked = _url(place)
        self.shared = self.url.get_backend_name() == "postgresql"
        file = None if self.shared else self.url.database or None
        self.lasting = self.shared or file is not None
        self._engine = self._connect(Path(file) if file else None)
        self._writer = self._engine.execution_options(writes=True)
        # With SQLite one thread at a time: in memory all share one connection, and in a file writers would only wait
        # for each other.
        self._lock = nullcontext() if self.shared else threading.Lock()

    @property
    def place(self) -> str:
        """Where it is, for the operator; without a password."""
        if not self.lasting:
            return "in memory"
        return _shown(self.url) if self.shared else str(self.url.database)

    def close(self) -> None:
        """Close all connections; with SQLite, everything is in the one file then."""
        if self.lasting:
            with suppress(
                Unavailable
            ):  # it has been logged, and the next start reads the log beside the file
                self.scrub()
        self._engine.dispose()

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """A connection whose statements take effect together, or not at all.

        Raises:
            Unavailable: where the database fails: a full disk, a damaged file, a server that does not answer.
        """
        with self.as_sentence(), self._lock, (self._writer if writes else self._engine).begin() as connection:
            yield connection

    def alone(self, connection: Connection, what: int = 1) -> None:
        """Let no other process do `what` until the end of this transaction: for a decision by sums or counts over many
        rows. SQLite has one writer at a time anyway."""
        if self.shared:
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:program, :what)"),
                {"program": APPLICATION, "what": what},
            )

    def put(self, connection: Connection, table: Table, **values: Any) -> None:
        """Insert a row, in place of the one with the same primary key if there is one."""
        insert = (postgresql if self.shared else sqlite).insert(table).values(values)
        keys = [column.name for column in table.primary_key]
        rest = {name: value for name, value in values.items() if name not in keys}
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=rest))

    def notifications(self, channel: str, stop: Callable[[], bool]) -> Iterator[list[str]]:
        """On PostgreSQL: what processes tell each other on a channel, as it comes, and an empty list now and then."""
        connection = self._engine.raw_connection()
        driver: Any = connection.driver_connection
        connection.detach()  # it is never given back to the pool
        try:
            driver.rollback()
            driver.autocommit = True
            driver.execute(f"LISTEN {channel}")
            while not stop():
                yield [notice.payload for notice in driver.notifies(timeout=0.5, stop_after=1)]
        finally:
            driver.close()

    def scrub(self) -> None:
        """Overwrite what was deleted, where the database would keep it in a log."""
        if not self.shared:
            with self.as_sentence(), self._lock, self._engine.connect() as connection:
                # SQLAlchemy types it as None once closed, which it is not here
                connection.connection.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]

    @contextmanager
    def as_sentence(self) -> Iterator[None]:
        """The database's error as one sentence; its details are logged."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            log.exception("the database failed")
            # What a server says names hosts and accounts, which are no visitor's business.
            details = "" if self.shared else f" ({getattr(error, 'orig', error)})"
            reasons = "the database does not answer" if self.shared else "a full disk and a damaged file"
            raise Unavailable(
                f"The library cannot be read or written just now{details}. What it keeps was not changed. Whoever runs "
                f"this server can help: {reasons} {'is' if self.shared else 'are'} the usual "
                f"reason{'' if self.shared else 's'}."
            ) from error

    def _connect(self, path: Path | None) -> Engine:
        if self.shared:
            engine = create_engine(
                self.url.set(drivername="postgresql+psycopg"),
                pool_size=POOL,
                pool_pre_ping=True,  # a database that was restarted costs no visitor an error
                connect_args={"connect_timeout": int(BUSY_S), "application_name": "specdec-lab"},
            )
        elif path is None:
            engine = create_engine(
                "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
            )
        else:
            engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_S})
        if not self.shared:
            event.listen(engine, "connect", _prepare)
            event.listen(engine, "begin", _begin)
        try:
            with self._first(path), engine.execution_options(writes=True).begin() as connection:
                self._upgrade(connection)
        except DBAPIError as error:
            engine.dispose()
            raise self._unusable(error.orig) from None
        except LibraryError:
            engine.dispose()
            raise
        return engine

    @contextmanager
    def _first(self, path: Path | None) -> Iterator[None]:
        """Check a file, and let no other process open it before it has its tables."""
        if path is None:
            yield
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(path.parent, os.O_RDONLY)
        except OSError as error:
            raise LibraryError(f"{self._asked}, but its folder cannot be made: {error.strerror}.") from None
        try:
            with suppress(OSError):  # not every network's folders can be locked
                fcntl.flock(folder, fcntl.LOCK_EX)
            self._check(path)
            yield
        finally:
            os.close(folder)

    def _check(self, path: Path) -> None:
        """Reject a file that is not ours before changing anything in it."""
        try:
            if not (path.exists() and path.stat().st_size):
                return
            uri = f"{path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S)) as file:
                (owner,), (version,) = (
                    file.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
                )
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from None
        if owner != APPLICATION:
            raise LibraryError(f"{self._asked}, but that file belongs to another program; name another.")
        self._check_version(version)

    def _check_version(self, version: int) -> None:
        if version > VERSION:
            raise LibraryError(
                f"{self._asked}, but that library has version {version} and this program reads up to {VERSION}; "
                "run the newer program, or name another place."
            )

    def _unusable(self, error: object) -> LibraryError:
        if self.shared:
            return LibraryError(f"{self._asked}, but it cannot be used: {_reason(str(error))}.")
        if "not a database" in str(error):
            return LibraryError(f"{self._asked}, but that file is not an SQLite database; name another.")
        if "malformed" in str(error):
            return LibraryError(
                f"{self._asked}, but that file is damaged ({error}). It was not changed: put a backup in its place, or "
                "move it away to begin a new library."
            )
        return LibraryError(
            f"{self._asked}, but it cannot be opened for writing ({error}); name a file in a folder that this server "
            "may write to, or leave SPECDEC_LIBRARY empty to keep the library in memory."
        )

    def _upgrade(self, connection: Connection) -> None:
        """Bring the tables up to date. Processes that start at once wait here for the first."""
        self.alone(connection, 0)
        version = self._version(connection)
        self._check_version(version)
        if version == VERSION:
            return
        from alembic import command  # here and not above: it is seldom needed
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        if version and not inspect(connection).has_table("alembic_version"):
            command.stamp(config, f"{version:04}")  # its earlier versions were counted by SQLite alone
        command.upgrade(config, "head")
        if not self.shared:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
            # Older programs look here, and refuse what they do not read.
            connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
        if self.lasting:
            log.info("the database was brought from version %d to %d", version, VERSION)

    def _version(self, connection: Connection) -> int:
        if not self.shared:
            return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        if not inspect(connection).has_table("alembic_version"):
            return 0
        return int(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one())


def _reason(error: str) -> str:
    """What a PostgreSQL driver's error says, in one line; below it are questions, indented, and other attempts."""
    lines = [line.strip() for line in error.splitlines() if line.strip() and not line[0].isspace()]
    telling = [
        line for line in lines if not line.endswith(":") and not line.startswith("Multiple connection")
    ]
    return (telling or ["no reason given"])[0].removeprefix("- ").rstrip(".?")


def _url(place: Path | str | None) -> tuple[URL, str]:
    """The database's URL, and how a sentence to the operator about it begins."""
    if place is None:
        return URL.create("sqlite"), "The library is to be kept in memory"
    if isinstance(place, Path):
        return (
            URL.create("sqlite", database=str(place)),
            f"The library is to be kept in {place} (SPECDEC_LIBRARY)",
        )
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):
        raise LibraryError(
            "SPECDEC_DATABASE has to be a database's URL, and cannot be read as one."
        ) from None
    if (
        "@" in (url.database or "") and url.get_backend_name() != "sqlite"
    ):  # what follows it is a password's rest
        raise LibraryError(
            "SPECDEC_DATABASE cannot be read: in its password, write @ as %40, / as %2F, : as %3A and % as %25."
        )
    asked = f"The library is to be kept in {_shown(url)} (SPECDEC_DATABASE)"
    if url.get_backend_name() == "postgresql":
        return url, asked
    if url.get_backend_name() != "sqlite":
        raise LibraryError(f"{asked}, but this program knows sqlite and postgresql only.")
    if url.query:
        raise LibraryError(f"{asked}, but options after a question mark are not taken for SQLite.")
    return url.set(database=str(Path(url.database).resolve()) if url.database else None), asked


def _shown(url: URL) -> str:
    """The URL without secrets, which may also come after the question mark."""
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string()


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
