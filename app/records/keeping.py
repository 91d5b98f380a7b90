"""A visitor's finished run on its way into the library, and back: what is in memory is a cache of the library.

A run is kept on its own thread, after its last timed phase.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict

from app.decoding.models import Choice
from app.decoding.run import Request, Run
from app.decoding.runs import Runs
from specdec_core.errors import SpecdecError
from specdec_core.settings import Settings

from .store import Full, Library, Saved
from .summary import summarize

log = logging.getLogger(__name__)


def keep(run: Run, library: Library) -> None:
    """Save what the run's lanes recorded for its owner; a run that wrote nothing is not kept.

    The traces come straight from the recorder, so they are audited and not read back: parsing 20 MB would hold the
    interpreter for a second, in which somebody else's run may be on the clock.
    """
    traces = run.traces
    if run.owner is None or not any(trace.token_ids for trace in traces.values()):
        return
    labels = [run.request.labels[lane] for lane in traces]
    header = next(iter(traces.values())).header
    kept = [
        (summary, trace.to_json().encode())
        for summary, trace in zip(summarize(list(traces.values()), labels), traces.values(), strict=True)
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


def find(key: str | None, owner: str, runs: Runs, library: Library) -> Run | None:
    """The run that `key` opens for this visitor: a run of their own by its id, or anybody's by its shared link.

    From memory while it is there, else rebuilt from the library; None where neither has it, which is also the answer
    for somebody else's run.
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
        return None
    found = runs.get(saved.id) or _rebuilt(saved, key, None, runs, library)
    return found.seen_by(key) if found else None


def _rebuilt(saved: Saved, key: str, owner: str | None, runs: Runs, library: Library) -> Run | None:
    """A kept run as it was right after its end, in memory again; None where too little is known of it."""
    run = _read(saved, owner)
    # The library numbers the lanes that ended, in their order.
    traces = {lane: library.trace(key, at, owner) for at, lane in enumerate(sorted(run.ends))} if run else {}
    there = {lane: trace for lane, trace in traces.items() if trace is not None}
    if run is None or len(there) < len(saved.lanes):  # deleted meanwhile, or a run that lost a lane
        return None
    return runs.take_back(run, there)


def _written(run: Run) -> str:
    """What was asked for, and what of the run its traces do not say."""
    asked = run.request
    content = {
        "lanes": [lane.model_dump(mode="json") for lane in asked.lanes],
        "labels": asked.labels,
        "choice": asdict(asked.choice) if isinstance(asked.choice, Choice) else None,
        "chat": asked.chat,
        "system": asked.system,
        "templated": bool(run.templated),
        "device": run.device,
        "ends": run.ends,
        "error": run.error,
    }
    return json.dumps(content, ensure_ascii=False)


def _read(saved: Saved, owner: str | None) -> Run | None:
    """The run that `_written` wrote down; None where nothing is, or what another version of the core understood."""
    if saved.request is None:
        return None
    content = json.loads(saved.request)
    try:
        lanes = tuple(Settings(**lane) for lane in content["lanes"])
    except (SpecdecError, TypeError):
        return None
    choice = Choice(**content["choice"]) if content["choice"] else None
    request = Request(
        saved.prompt, lanes, tuple(content["labels"]), choice, content["chat"], content["system"]
    )
    run = Run(
        id=saved.id,
        owner=owner,
        request=request,
        ends={int(lane): end for lane, end in content["ends"].items()},
        device=content["device"],
        templated=content["templated"],
        error=content["error"],
    )
    run.perform(lambda: None)  # it is over
    return run
