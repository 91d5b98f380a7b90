"""The cache of converted models: a folder in the transformers layout for each, made once, complete or absent.

A conversion is written to a temporary folder next to its final place, synced to disk and then renamed, so
that a killed one is never taken for complete. A lock file lets the second of two processes wait for the
first. A copy lists its files with sizes and checksums; one that does not match its list is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from specdec_core.foundations.errors import ModelError

MANIFEST = "conversion.json"
VERSION = 2  # of the conversion format; copies of another version are made again
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}")
WAIT_S = 3600.0  # for another process that converts the same model
SPARE_BYTES = 200_000_000  # to keep free on the disk
Report = Callable[[float | None, str], None]  # progress, 0 to 1 or unknown, and the current step

# copies whose checksums this process has verified, with the state of their files
_seen: dict[Path, tuple[Any, ...]] = {}


def quiet(fraction: float | None, words: str) -> None:
    """A report that does nothing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a copy was made from: a file's name, never its path, with its size in bytes and its checksum."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ConvertedCopy:
    """One converted model in the cache. `bytes` are what its files take."""

    name: str
    folder: Path
    bytes: int
    origin: Origin | None  # None: its list of files cannot be read


@dataclass(slots=True)
class _List:
    """The contents of a copy's note."""

    version: int
    origin: Origin
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # by name: bytes, sha256


def folder() -> Path:
    """Where converted models are kept: `SPECDEC_CACHE`, else a folder of ours in the user's cache folder.

    Raises:
        ModelError: if neither is named and the user has no home folder.
    """
    given = os.environ.get("SPECDEC_CACHE", "").strip()
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME", "").strip()
    if not cache:
        try:
            cache = str(Path.home() / ".cache")
        except RuntimeError as error:  # no HOME, and no entry in the system's list of users
            raise ModelError(
                "Converted models have no place: this user has no home folder (HOME is not set). Name a folder for "
                "them with SPECDEC_CACHE."
            ) from error
    return Path(cache) / "specdec-lab" / "models"


def copies() -> list[ConvertedCopy]:
    """What the cache holds, by name."""
    found = []
    for path in sorted(folder().glob("*/")):
        if NAME.fullmatch(path.name) and (path / MANIFEST).is_file():
            listed = _read(path)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            found.append(ConvertedCopy(path.name, path, size, listed.origin if listed else None))
    return found


def find(name: str, sha256: str | None = None) -> Path | None:
    """The folder of a whole copy; None if there is none, it is damaged, or was made from a file of another checksum."""
    try:
        path = folder() / name
    except ModelError:  # there is no place for copies, so there are none
        return None
    listed = _read(path)
    if listed is None or listed.version != VERSION or (sha256 and listed.origin.sha256 != sha256):
        return None
    try:
        state = _state(path, listed)
        if _seen.get(path) == state:
            return path
        for file, facts in listed.files.items():
            if (path / file).stat().st_size != facts["bytes"] or checksum(path / file) != facts["sha256"]:
                return None
    except OSError:
        return None
    _seen[path] = state
    return path


def make(
    name: str,
    origin: Origin,
    needed: int,
    build: Callable[[Path, Report], None],
    report: Report = quiet,
) -> Path:
    """The folder of the copy, built now unless another process has done so.

    Args:
        name: the copy's name in the cache.
        origin: what it is made from.
        needed: bytes it will take.
        build: writes the files into the folder it is given.

    Raises:
        ModelError: one sentence, if the cache cannot be written or the disk is too full, or whatever `build` raises.
    """
    place = folder() / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(name, report):
            if found := find(name, origin.sha256):
                return found
            _sweep(name)
            _check_space(name, needed)
            part = place.with_name(f".{name}.{secrets.token_hex(6)}.part")
            part.mkdir()
            try:
                build(part, report)
                report(0.97, "Checking the converted weights")
                _seal(part, origin)
                _swap(part, place)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        report(1.0, "Converted")
    except OSError as error:
        raise ModelError(
            f"'{name}' could not be converted: the folder for converted models cannot be written "
            f"({error.strerror or 'unknown reason'}). Name another one with SPECDEC_CACHE, or make room."
        ) from error
    return place


def delete(name: str) -> int:
    """Remove a copy and the leftovers of interrupted conversions of it; returns the bytes freed.

    Raises:
        ModelError: if there is no such copy, or it cannot be removed.
    """
    place = folder() / name
    if not NAME.fullmatch(name) or not place.is_dir() or not (place / MANIFEST).is_file():
        held = ", ".join(f"'{copy.name}'" for copy in copies()) or "nothing"
        raise ModelError(f"There is no converted model '{name[:80]}' to delete; the cache holds {held}.")
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    try:
        with _locked(name, quiet):
            _discard(place)
            _sweep(name)
    except OSError as error:
        raise ModelError(f"'{name}' could not be deleted: {error.strerror or 'unknown reason'}.") from error
    return size


def checksum(*paths: Path) -> str:
    """SHA-256 of a file, or of several one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


class _locked:
    """The lock of one name in the cache; reports while another process holds it."""

    def __init__(self, name: str, report: Report) -> None:
        self._lock = FileLock(folder() / f".{name}.lock")
        self._name, self._report = name, report

    def __enter__(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            self._report(None, "Another process is converting this model")
            try:
                self._lock.acquire(timeout=WAIT_S)
            except Timeout:
                raise ModelError(
                    f"'{self._name}' is being converted by another process, which has not finished within an hour. "
                    "End that process, then try again."
                ) from None

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _read(path: Path) -> _List | None:
    try:
        found = json.loads((path / MANIFEST).read_bytes())
        listed = _List(int(found["version"]), Origin(**found["origin"]), dict(found["files"]))
        plain = all(
            Path(file).name == file and {"bytes", "sha256"} <= set(facts)
            for file, facts in listed.files.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return listed if plain and listed.files else None


def _state(path: Path, listed: _List) -> tuple[Any, ...]:
    """A fingerprint that changes when a file of the copy is written."""
    facts = [(file, (path / file).stat()) for file in (MANIFEST, *listed.files)]
    return tuple((file, stat.st_size, stat.st_mtime_ns, stat.st_ino) for file, stat in facts)


def _check_space(name: str, needed: int) -> None:
    free = shutil.disk_usage(folder()).free
    if needed + SPARE_BYTES > free:
        raise ModelError(
            f"'{name}' takes {needed / 1e6:,.0f} MB once it is converted, and {free / 1e6:,.0f} MB are free where "
            "converted models are kept. Make room, or name another folder with SPECDEC_CACHE."
        )


def _seal(part: Path, origin: Origin) -> None:
    """List the files of a finished conversion and sync them to disk."""
    files = sorted(path for path in part.iterdir() if path.is_file())
    listed = {path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in files}
    content = {"version": VERSION, "origin": asdict(origin), "files": listed}
    (part / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for path in (*files, part / MANIFEST):
        path.chmod(0o644)  # some libraries write files only their owner can read
        _sync(path)
    _sync(part)


def _swap(part: Path, place: Path) -> None:
    """Move a finished conversion into place; what is there is damaged or of another origin."""
    if place.exists():
        _discard(place)
    part.rename(place)
    _sync(place.parent)


def _discard(place: Path) -> None:
    """Remove a copy; its name is freed at once, even if the process is killed midway."""
    trash = place.with_name(f".{place.name}.{secrets.token_hex(6)}.part")
    place.rename(trash)
    shutil.rmtree(trash)


def _sweep(name: str) -> None:
    """Remove leftovers of killed conversions of this name; the lock is held, so none is running."""
    for old in folder().glob(f".{name}.*.part"):
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.part", old.name):
            shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Sync a file to disk, or a folder where the system supports it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
