"""A visitor's finished run on its way into the library, on the run's own thread and after its last timed phase."""

from __future__ import annotations

import logging

from app.decoding.run import Run

from .store import Full, Library
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
        )
    except Full as error:
        log.warning("run %s is not kept: %s", run.id, error)
