"""A trace or a whole race from a file: read, checked and kept, marked as imported."""

from __future__ import annotations

import threading

from app.lanes import of_trace as lane
from specdec_core.foundations.errors import TraceError
from specdec_core.record.read import parse_traces
from specdec_core.record.trace import Trace
from specdec_measure.adapters import forms
from specdec_measure.adapters.unwrapping import utf8

from .listing import MOST_SHOWN
from .store import Library
from .summary import Summary, summarize

MAX_MB = 12  # twice the size of 256 tokens with 64-node trees; parsing takes twenty times that in memory

_one_at_a_time = threading.Lock()


def take(owner: str, data: bytes, library: Library) -> tuple[str, tuple[Summary, ...]]:
    """Keep what is in a file's `data` for `owner`; returns its id and each lane's summary with its audit.

    The lanes of a race are kept as one run, so that their speedups keep their baseline. Traces are stored as this
    program writes them, not as the file's own bytes.

    Raises:
        TraceError: one sentence, if it is too large or not a trace of this version.
        Full: if there is no room for it.
    """
    if len(data) > MAX_MB * 1_000_000:
        raise TraceError(
            f"The file has {len(data):,} bytes; a trace of up to {MAX_MB} MB is taken. Record fewer tokens."
        )
    with _one_at_a_time:  # one parse at a time limits the memory for any number of visitors
        data = utf8(data)
        try:
            lanes = parse_traces(data)
        except TraceError as error:
            raise TraceError(reported(data) or str(error)) from None
        if len(lanes) > MOST_SHOWN:
            raise TraceError(
                f"This race has {len(lanes)} lanes; up to {MOST_SHOWN} can be shown side by side."
            )
        summaries = tuple(summarize(lanes, [label(trace) for trace in lanes]))
        kept = [(found, trace.to_json().encode()) for found, trace in zip(summaries, lanes, strict=True)]
    header = lanes[-1].header
    run_id = library.add(
        owner,
        header.prompt,
        kept,
        origin="imported",
        machine=header.machine,
        recorded=header.created,
    )
    return run_id, summaries


def reported(data: bytes) -> str | None:
    """A sentence about a file in which a program counted its guesses, which is no trace; None for any other."""
    try:
        found = forms.read(data)
    except TraceError:
        return None
    if found is None:
        return None
    return (
        f"This is not a trace: it has what {found.engine} counted ({found.source}), without any rounds to play. On the "
        "command line, specdec import shows it."
    )


def label(trace: Trace) -> str:
    """The name of a trace's lane from its settings, as far as they are understood."""
    return (
        lane.named(trace.header) or f"Proposer “{str(trace.header.settings.get('proposer', 'unknown'))[:40]}”"
    )
