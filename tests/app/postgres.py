"""A PostgreSQL server of the tests' own: in a temporary folder, reached by a socket in it only, gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

ACCOUNT = "nobody"  # PostgreSQL refuses to run as root
FAST = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "listen_addresses=",
    "max_connections=200",
)


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian does not put it on the path."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(found).resolve().parent if found else debian[-1].parent if debian else None


@contextmanager
def server() -> Iterator[str]:
    """Start a server; the value is the URL of its databases, with {} in place of their name.

    Raises:
        FileNotFoundError: with a sentence, if PostgreSQL is not installed.
    """
    bin_ = programs()
    if bin_ is None:
        raise FileNotFoundError("No PostgreSQL was found (Debian: apt-get install postgresql).")
    # Not below pytest's own folder, which only the account that runs the tests may enter.
    folder = Path(tempfile.mkdtemp(prefix="specdec-postgres-"))
    as_whom: dict[str, Any] = {"user": ACCOUNT} if os.geteuid() == 0 else {}
    if as_whom:
        shutil.chown(folder, ACCOUNT)
    data, log = folder / "data", folder / "log"
    url = f"postgresql://postgres@/{{}}?host={folder}"
    try:
        subprocess.run(
            [bin_ / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, cwd=folder, capture_output=True, **as_whom,
        )  # fmt: skip
        settings = [part for setting in FAST for part in ("-c", setting)]
        with log.open("wb") as out:
            running = subprocess.Popen(
                [bin_ / "postgres", "-D", data, "-k", folder, *settings],
                cwd=folder, stdout=out, stderr=out, **as_whom,
            )  # fmt: skip
        try:
            _wait(url.format("postgres"))
            yield url
        finally:
            running.terminate()  # it lets clients finish; the tests have closed theirs
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextmanager
def database(url: str, name: str, template: str = "template1") -> Iterator[str]:
    """Make a database; the value is its URL."""
    with psycopg.connect(url.format("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield url.format(name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
