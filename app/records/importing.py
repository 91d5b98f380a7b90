"""A trace from a file: read, checked and kept as what it is, recorded elsewhere."""

from __future__ import annotations

import threading
from pathlib import PurePath

from app.lanes import of_trace as lane
from specdec_core.errors import TraceError
from specdec_core.record.trace import Trace

from .store import Library
from .summary import Summary, summarize

MAX_MB = 12  # twice what 256 tokens of 64-node trees take; parsing needs twenty times a file's size in memory

_one_at_a_time = threading.Lock()


def take(owner: str, name: str, data: bytes, library: Library) -> tuple[str, Summary]:
    """Keep the trace in `data`, a file called `name`, for `owner`; its id and its summary, audit included.

    What is stored is the trace as this program writes it, not the file's own bytes.

    Raises:
        TraceError: one sentence, if it is too large or no trace of this version.
        Full: if there is no room for it.
    """
    if len(data) > MAX_MB * 1_000_000:
        raise TraceError(
            f"The file has {len(data):,} bytes; a trace of up to {MAX_MB} MB is taken. Record fewer tokens."
        )
    with _one_at_a_time:  # so that many visitors at once need the memory of one
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
    """What a trace's lane is called, from the settings it names, or as little as can be told of them."""
    return (
        lane.named(trace.header) or f"Proposer “{str(trace.header.settings.get('proposer', 'unknown'))[:40]}”"
    )
