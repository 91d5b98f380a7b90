"""A trace from a file: read, checked and kept, marked as recorded elsewhere."""

from __future__ import annotations

import threading
from pathlib import PurePath

from app.lanes import of_trace as lane
from specdec_core.errors import TraceError
from specdec_core.record.trace import Trace

from .store import Library
from .summary import Summary, summarize

MAX_MB = 12  # twice the size of 256 tokens with 64-node trees; parsing takes twenty times that in memory

_one_at_a_time = threading.Lock()


def take(owner: str, name: str, data: bytes, library: Library) -> tuple[str, Summary]:
    """Keep the trace in `data`, a file called `name`, for `owner`; returns its id and its summary with the audit.

    The trace is stored as this program writes it, not as the file's own bytes.

    Raises:
        TraceError: one sentence, if it is too large or not a trace of this version.
        Full: if there is no room for it.
    """
    if len(data) > MAX_MB * 1_000_000:
        raise TraceError(
            f"The file has {len(data):,} bytes; a trace of up to {MAX_MB} MB is taken. Record fewer tokens."
        )
    with _one_at_a_time:  # one parse at a time limits the memory for any number of visitors
        trace = Trace.from_json(data)
        json = trace.to_json().encode()
        (summary,) = summarize([trace], [label(trace)])
    header = trace.header
    run_id = library.add(
        owner,
        header.prompt,
        [(summary, json)],
        origin="imported",
        machine=header.machine,
        recorded=header.created,
        name=PurePath(name.replace("\\", "/")).stem or "Imported trace",
    )
    return run_id, summary


def label(trace: Trace) -> str:
    """The name of a trace's lane from its settings, as far as they are understood."""
    return (
        lane.named(trace.header) or f"Proposer “{str(trace.header.settings.get('proposer', 'unknown'))[:40]}”"
    )
