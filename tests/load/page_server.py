"""The app as `python -m app` serves it, also logging when each round was committed.

    python -m tests.load.page_server FILE

Each line of FILE holds the time of day in seconds, the lane and the round. A browser's `Date.now()` on the same
machine reads the same clock, so `tests.load.page` can compute how long a round takes to reach the screen.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from app.decoding.api import Event
from app.decoding.run import Run
from app.web.server import main
from specdec_core.engine.events import Step


def note_commits(file: Path) -> None:
    """From now on log each step a run receives to `file`, with the time at which the decoder reported it."""
    process = Run.process
    out = file.open("w", buffering=1, encoding="ascii")

    def noting(self: Run, event: Event) -> None:
        if isinstance(event, Step):
            out.write(f"{time.time():.6f} {event.lane} {event.round}\n")
        process(self, event)

    Run.process = noting  # type: ignore[method-assign]


if __name__ == "__main__":
    note_commits(Path(sys.argv.pop(1)))
    main()
