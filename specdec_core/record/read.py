"""Traces from files."""

from __future__ import annotations

from pathlib import Path

from pydantic_core import from_json, to_json

from specdec_core.errors import TraceError

from .schema import MAX_JSON_BYTES
from .trace import Trace


def read_traces(path: Path) -> list[Trace]:
    """The traces of a JSON file: one, or a list of lanes as `race --json` writes it.

    Raises:
        TraceError: one sentence that names the file.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise TraceError(f"it has {path.stat().st_size:,} bytes; at most {MAX_JSON_BYTES:,} are read.")
        data = path.read_bytes()
        if not data.lstrip().startswith(b"["):
            return [Trace.from_json(data)]
        lanes = from_json(data, allow_inf_nan=False)
        return [Trace.from_json(to_json(lane)) for lane in lanes]
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror or 'unknown error'}.") from None
    except TraceError as error:
        raise TraceError(f"'{path}' cannot be shown: {error}") from None
    except ValueError as error:
        raise TraceError(f"'{path}' is not complete JSON ({error}).") from None
