"""What programs print, out of what it was kept in: streams of events, container logs, captures of proxies, gzip.

This layer knows no engine. It gives the JSON objects of a file, in order, and the lines that are no JSON; a form's
parser never sees a wrapping.
"""

from __future__ import annotations

import json
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from specdec_core.foundations.errors import TraceError
from specdec_core.record.schema import MAX_JSON_BYTES

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What log collectors put before a line: a time, a container's name, a stream.
BEFORE = re.compile(
    r"(?:\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)\s+(?:(?:stdout|stderr) [FP] )?"  # docker logs -t, Kubernetes
    r"|\[?pod/\S+\]?\s+"  # kubectl logs --prefix
    r"|[\w./-]+\s*\|\s+(?![-+0-9.eE]+\s*$)"  # docker compose; not a row of a table
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ [^\s:]+\[\d+\]: )"  # journalctl
)
# What grep puts before a line: the file's name, and perhaps the line's number.
NAMED = re.compile(r"[\w./\\-]*?\.\w+(?::(?:\d+:)?|-(?:\d+-)?)|\d+[:-](?=\s*[\[{]|data:)")
EVENT = re.compile(r"data: ?")
END = "[DONE]"
# Keys under which a wrapping keeps text, and those of what was asked, which is not what was answered.
TEXTS = set(
    "log message msg line text body content data response output result payload stdout stderr raw _raw event answer "
    "record MESSAGE @message textPayload".split()
)
ASKED = set("request req prompt messages input query inputs generation_settings".split())
DEEP = 8
MAX_TRIES = 200  # places at which JSON over several lines is looked for


@dataclass(slots=True)
class Content:
    """What a file holds.

    Attributes:
        objects: those that `known` takes, each with the number of its stream of events; None outside of one.
        others: objects that nobody takes.
        lines: text.
        broken: the first error in what was meant to be JSON, if it has any; `cut`: the first one of a single line.
    """

    objects: list[tuple[Any, int | None]] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    broken: ValueError | None = None
    cut: ValueError | None = None
    streams: int = 0


@dataclass(slots=True)
class LogEntry:
    """What one entry of an object holds."""

    objects: list[tuple[Any, int | None]] = field(default_factory=list)
    logs: list[tuple[str, str]] = field(default_factory=list)

    def in_other(self, other: LogEntry, earlier: bool) -> bool:
        """Whether another entry has all of this; of two that are equal, the `earlier` one."""
        if self.objects or not self.logs:
            return earlier and bool(self.objects) and (self.objects, self.logs) == (other.objects, other.logs)
        mine, theirs = ([line.strip() for _, line in one.logs] for one in (self, other))
        if mine == theirs:
            return earlier
        return all(any(line in longer for longer in theirs) for line in mine)


def text_of(data: bytes) -> str:
    """A file's text, without compression, byte-order mark and a terminal's colours.

    Raises:
        TraceError: one sentence, if it is too large, or compressed and damaged.
    """
    if data.startswith(b"\x1f\x8b"):
        try:
            parts, packed, size = list[bytes](), data, 0
            while packed.startswith(b"\x1f\x8b") and size <= MAX_JSON_BYTES:  # files put behind each other
                unpacking = zlib.decompressobj(31)
                parts.append(unpacking.decompress(packed, MAX_JSON_BYTES + 1 - size))
                packed, size = unpacking.unused_data, size + len(parts[-1])
            data = b"".join(parts)
        except zlib.error as error:
            raise TraceError(f"The file is compressed by gzip and cannot be unpacked: {error}.") from None
    if len(data) > MAX_JSON_BYTES:
        raise TraceError(
            f"The file has more than {MAX_JSON_BYTES:,} bytes, which are the most that are read."
        )
    return COLOURS.sub("", utf8(data).decode("utf-8", "replace"))


def utf8(data: bytes) -> bytes:
    """A text without a byte-order mark, in UTF-8 where the mark says UTF-16, as a redirection in PowerShell writes it.

    Raises:
        TraceError: one sentence, if it is not what its mark says.
    """
    if not data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.removeprefix(BOM_UTF8)
    try:
        return data.decode("utf-16").encode()
    except UnicodeError:
        raise TraceError(
            "The file begins with the byte-order mark of UTF-16, and is not UTF-16. Save it as UTF-8."
        ) from None


def unwrap(text: str, known: Callable[[Any], bool]) -> Content:
    """The objects that `known` takes and the lines of text, from however many wrappings."""
    found = Content()
    lines = text.splitlines()
    written = [
        line for line in lines if line.strip() not in ("", "--")
    ]  # "--" is between the places that grep shows
    if written and all(map(NAMED.match, written)):
        text = "\n".join(NAMED.sub("", line, count=1) for line in written)
    _read(text, known, found, 0)
    return found


def _read(text: str, known: Callable[[Any], bool], found: Content, depth: int) -> None:
    try:
        values: Iterator[tuple[Any, int | None]] = iter([(from_json(text), None)])
    except ValueError as error:
        if depth == 0 and text.lstrip()[:1] in ("{", "["):
            found.broken = error
        values = _values(text, found)
    logs: list[tuple[str, str]] = []
    for value, stream in values:
        if isinstance(value, dict | list) or (isinstance(value, str) and depth == 0):
            _walk(value, stream, known, found, depth, logs)
    if logs and depth < DEEP:
        # Docker cuts long lines into pieces, of which the last ends the line; others leave the end out.
        pieces = any(name == "log" and one.endswith("\n") for name, one in logs)
        ended = (one if pieces and name == "log" else f"{one}\n" for name, one in logs)
        _read("".join(ended), known, found, depth + 1)


def _values(text: str, found: Content) -> Iterator[tuple[Any, int | None]]:
    """JSON values among the lines of a text, which are kept where they are none."""
    lines, at, tries = text.splitlines(), 0, 0
    stream: int | None = None
    while at < len(lines):
        line = lines[at]
        at += 1
        for _ in range(3):
            line = BEFORE.sub("", line, count=1) if BEFORE.match(line) else line
        event = EVENT.match(line)
        if event:
            line = line[event.end() :]
            if stream is None:
                found.streams += 1
                stream = found.streams
            if line.strip() == END:
                stream = None
                continue
        line = line.strip()
        if line[:1] in ("{", "["):
            try:
                yield from_json(line), stream if event else None
                continue
            except ValueError as error:
                tries += 1
                # Indented over several lines: up to where it ends.
                if not event and tries < MAX_TRIES and (whole := _over_lines(line, lines, at)):
                    value, at = whole
                    yield value, None
                    continue
                # Several behind each other, as curl appends them to a file.
                if not event and (rest := _behind(line)):
                    yield rest[0], None
                    at -= 1
                    lines[at] = rest[1]
                    continue
                if event or line[:2] in ("{", "[", '{"', "[{"):
                    found.cut = found.cut or error
        if line:
            found.lines.append(line)


def _over_lines(line: str, lines: list[str], at: int) -> tuple[Any, int] | None:
    """A value that begins with `line` and ends with a line behind it, and the number of the next."""
    if line not in ("{", "[", "[{") and not line.endswith((",", "{", "[", ":")):
        return None
    text = "\n".join([line, *lines[at:]])
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value, at + text.count("\n", 0, end)


def _behind(line: str) -> tuple[Any, str] | None:
    """The object at the beginning of a line, and the rest of the line, which begins with another."""
    try:
        value, end = json.JSONDecoder().raw_decode(line)
    except (ValueError, RecursionError):
        return None
    rest = line[end:].lstrip()
    return (value, rest) if isinstance(value, dict) and rest.startswith("{") else None


def _walk(
    value: Any,
    stream: int | None,
    known: Callable[[Any], bool],
    found: Content,
    depth: int,
    logs: list[tuple[str, str]],
) -> None:
    """Take an object, or look for what it wraps; lines of logs are gathered in `logs`."""
    if known(value):
        found.objects.append((value, stream))
        return
    if depth >= DEEP:
        return
    if isinstance(value, str):
        _read(value, known, found, depth + 1)
        return
    before = len(found.objects), len(logs)
    if isinstance(value, list):
        for one in value:
            if isinstance(one, list) and len(one) == 2 and isinstance(one[1], str):
                logs.append(("", one[1]))  # a time and a line, as Loki has them
            elif isinstance(one, dict | list):
                _walk(one, stream, known, found, depth + 1, logs)
        return
    entries: list[LogEntry] = []
    begun = len(found.objects)
    for name, one in value.items():
        inner = _as_json(one) if isinstance(one, str) and name in TEXTS else one
        if name in ASKED or not inner:
            continue
        entry = LogEntry()
        if isinstance(inner, dict | list):
            _walk(inner, stream, known, found, depth + 1, entry.logs)
        elif isinstance(inner, str) and name in TEXTS:
            entry.logs.append((name, inner))
        entry.objects = found.objects[begun:]
        del found.objects[begun:]
        entries.append(entry)
    # A record may have its message twice, as text and in parts: what another entry has too is left out.
    for at, entry in enumerate(entries):
        if not any(entry.in_other(other, at > place) for place, other in enumerate(entries) if place != at):
            found.objects += entry.objects
            logs += entry.logs
    if before == (len(found.objects), len(logs)):
        found.others.append(value)


def _as_json(text: str) -> Any:
    """The object or list in a text, or the text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return from_json(text)
        except ValueError:
            pass
    return text
