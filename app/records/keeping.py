"""Moves finished runs into the library and back: the runs in memory are a cache of the library.

A run is kept on its own thread, after its last timed phase.
"""

from __future__ import annotations

import json
import logging

from app.decoding.run import Run
from app.decoding.runs import Runs
from specdec_core.foundations.errors import SpecdecError

from . import requests
from .journal import Journal
from .store import Full, Library, Saved
from .summary import summarize

log = logging.getLogger(__name__)


def keep(run: Run, library: Library) -> None:
    """Save the records of the run's lanes for its owner; a run without output is not kept."""
    traces = run.traces
    if run.owner is None or not any(trace.token_ids for trace in traces.values()):
        return
    labels = [run.request.labels[lane] for lane in traces]
    header = next(iter(traces.values())).header
    kept = [
        (summary, run.archive.json(run.trace_name(lane)) or b"")
        for summary, lane in zip(summarize(list(traces.values()), labels), traces, strict=True)
    ]
    try:
        library.add(
            run.owner,
            header.prompt,
            kept,
            origin="measured",
            machine=header.machine,
            recorded=header.created,
            run_id=run.id,
            request=_written(run),
        )
    except Full as error:
        log.warning("run %s is not kept: %s", run.id, error)


def find(
    key: str | None, owner: str, runs: Runs, library: Library, journal: Journal | None = None
) -> Run | None:
    """The run that `key` opens for this visitor: a run of their own by its id, or anybody's by its shared link.

    From memory if it is there, else rebuilt from the library, else as far as another process has computed it; None if
    none has it, or if the run belongs to somebody else.
    """
    if not key:
        return None
    run = runs.get(key)
    if run is not None and run.belongs_to(owner):
        return run
    saved = library.get(owner, key)
    if saved is not None:
        return _rebuilt(saved, key, owner, runs, library)
    saved = library.shared(key)
    if saved is None:
        return journal.find(key, owner) if journal else None
    found = runs.get(saved.id) or _rebuilt(saved, key, None, runs, library)
    return found.seen_by(key) if found else None


def _rebuilt(saved: Saved, key: str, owner: str | None, runs: Runs, library: Library) -> Run | None:
    """Restore a kept run to its state right after its end; None if too little is known about it."""
    run = _read(saved, owner)
    # The library numbers the finished lanes in order.
    traces = {lane: library.trace(key, at, owner) for at, lane in enumerate(sorted(run.ends))} if run else {}
    there = {lane: trace for lane, trace in traces.items() if trace is not None}
    if run is None or len(there) < len(saved.lanes):  # deleted meanwhile, or a run that lost a lane
        return None
    return runs.take_back(run, there)


def _written(run: Run) -> str:
    """The request, and what the traces do not record of the run."""
    content = {
        **requests.written(run.request),
        "templated": bool(run.templated),
        "device": run.device,
        "ends": run.ends,
        "error": run.error,
    }
    return json.dumps(content, ensure_ascii=False)


def _read(saved: Saved, owner: str | None) -> Run | None:
    """The run that `_written` serialised; None if there is none, or one of another version of the core."""
    if saved.request is None:
        return None
    try:
        content = json.loads(saved.request)
        run = Run(
            id=saved.id,
            owner=owner,
            request=requests.read(saved.prompt, content),
            ends={int(lane): end for lane, end in content["ends"].items()},
            device=content["device"],
            templated=content["templated"],
            error=content["error"],
        )
    except (SpecdecError, KeyError, TypeError, ValueError):
        return None
    run.perform(lambda: None)  # it is over
    return run
