"""How is a downloaded tarball read safely? Regular files only, no path escapes, bounded sizes, in memory."""

from __future__ import annotations

import fnmatch
import io
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath

MAX_FILE_BYTES = 16 * 2**20
MAX_TOTAL_BYTES = 2 * 2**30
MAX_MEMBERS = 200_000


def safe_relative(name: str) -> PurePosixPath:
    """The member's path below the archive's top folder; a clear error for a path that leaves it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ValueError(f"The archive holds the unsafe path {name!r}: it is refused as a whole.")
    return PurePosixPath(*path.parts[1:])


def matches(path: PurePosixPath, include: list[str], exclude: list[str]) -> bool:
    """Whether a path fits one of the include globs and none of the exclude globs (* crosses folders)."""
    text = str(path)
    wanted = any(fnmatch.fnmatchcase(text, glob) for glob in include)
    return wanted and not any(fnmatch.fnmatchcase(text, glob) for glob in exclude)


def check_commit(top: str, commit: str) -> None:
    """The archive's top folder is `<repo>-<full commit>`: its commit must begin with the pinned digits."""
    found = top.rsplit("-", 1)[-1]
    if not commit or not found.startswith(commit):
        raise ValueError(
            f"The archive is of commit {found!r}, expected {commit!r}: it is not the pinned source."
        )


def read_tarball(
    data: bytes,
    commit: str,
    include: list[str],
    exclude: list[str] | None = None,
    max_file: int = MAX_FILE_BYTES,
    max_total: int = MAX_TOTAL_BYTES,
) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of the wanted regular files; nothing is ever written or executed.

    Links and devices are skipped. A file over `max_file` bytes or an archive unpacking to more than
    `max_total` bytes is refused.
    """
    total = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
        for count, member in enumerate(archive):
            if count >= MAX_MEMBERS:
                raise ValueError(f"The archive holds more than {MAX_MEMBERS} members: it is refused.")
            if member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                continue
            path = safe_relative(member.name)
            if count == 0:
                check_commit(PurePosixPath(member.name).parts[0], commit)
            total += max(0, member.size)
            if total > max_total:
                raise ValueError(f"The archive unpacks to more than {max_total} bytes: it is refused.")
            if not member.isreg() or not matches(path, include, exclude or []):
                continue
            if member.size > max_file:
                raise ValueError(f"{path} has {member.size} bytes, at most {max_file} are allowed: refused.")
            file = archive.extractfile(member)
            if file is not None:
                yield str(path), file.read(max_file)
