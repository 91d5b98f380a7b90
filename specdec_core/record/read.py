"""Traces from files, and the lanes of a race as one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic_core import from_json, to_json

from specdec_core.foundations.errors import TraceError, not_json
from specdec_core.settings import MAX_LANES

from .schema import MAX_JSON_BYTES
from .trace import Trace


def race_json(lanes: Iterable[Trace]) -> str:
    """The lanes of a race as one JSON list, plain decoding included, as `parse_traces` reads it."""
    return "[" + ",".join(trace.to_json() for trace in lanes) + "]"


def parse_traces(data: bytes) -> list[Trace]:
    """The traces of JSON text: one, or the lanes of a race.

    Raises:
        TraceError: one sentence; also where a list's lanes are of several races, or of none.
    """
    if not data.lstrip().startswith(b"["):
        return [Trace.from_json(data)]
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise TraceError(f"This is not a trace: the file {not_json(error, data)}.") from None
    if not 1 <= len(content) <= MAX_LANES:
        raise TraceError(f"A race has 1 to {MAX_LANES} lanes, and this file has {len(content)}.")
    lanes = [Trace.from_json(to_json(lane)) for lane in content]
    if len({trace.header.race.id if trace.header.race else "" for trace in lanes}) > 1:
        raise TraceError(
            "The lanes in this file are of different races; take one race, or one trace, a file."
        )
    if len({tuple(trace.header.prompt_ids) for trace in lanes}) > 1:
        raise TraceError("The lanes in this file continue different prompts, so they are not of one race.")
    return lanes


def read_traces(path: str | Path) -> list[Trace]:
    """The traces of a file that `decode --json`, `race --json` or the app wrote: one, or one for each lane of a race.

    Raises:
        TraceError: one sentence that names the file.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise TraceError(f"it has {path.stat().st_size:,} bytes; at most {MAX_JSON_BYTES:,} are read.")
        return parse_traces(path.read_bytes())
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror or 'unknown error'}.") from None
    except TraceError as error:
        raise TraceError(f"'{path}' cannot be read: {error}") from None
