"""A sweep: many prompts through several lanes, each cell timed a few times, always including plain decoding.

For every prompt the lanes take turns (A B C, then B C A, …), so that a slow minute of the machine affects all of
them and no lane is always first. A speedup is a cell's speed over that of plain decoding in the same turn. Rows can be
kept in a store (JSONL) and the sweep resumes from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_core.engine.choice import usual
from specdec_core.engine.events import Step
from specdec_core.foundations.errors import PromptError, SettingsError, SpecdecError
from specdec_core.models.tokens.chat import Prompt
from specdec_core.settings import Settings

from .cases import Case
from .lanes import about, check_lanes, complete
from .measured import MeasuredCase, complete_turns, fingerprint
from .store import SweepStore

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.record.trace import Trace

log = logging.getLogger(__name__)

MAX_REPEATS = 20
WARM_UP = 8  # untimed rounds of each lane


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """What is measured next, and how many cells are done of how many."""

    done: int
    total: int
    case: Case
    label: str
    repeat: int


def sweep(
    models: Models,
    cases: Sequence[Case],
    lanes: Sequence[Settings],
    *,
    repeats: int = 3,
    labels: Sequence[str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    store: Path | None = None,
    known: Sequence[MeasuredCase] = (),
    on_progress: Callable[[SweepProgress], None] = lambda progress: None,
) -> Iterator[MeasuredCase]:
    """Measure every prompt in every lane; yields rows as they are measured, known ones first.

    Args:
        cases: prompts; no two may share family and name.
        lanes: lane 0 is plain decoding, added if missing. All must produce the same text.
        repeats: how many times each cell is timed.
        labels: names of the given lanes; by default `label` of their settings.
        cancelled: polled between and within rounds; the current cell is dropped and the sweep ends.
        store: a JSONL file; rows are appended to it, and rows in it are not measured again.
        known: rows of an earlier part of the same sweep that are not in a store.
        on_progress: receives the progress.

    An interrupted turn is measured again: no speedup without a baseline of the same run. A failed cell is a
    row with an error, and the sweep continues.

    Raises:
        SpecdecError: one sentence, before the first row: lanes that are incompatible or cannot run with these
            models, a store of another sweep.
    """
    if not 1 <= repeats <= MAX_REPEATS:
        raise SettingsError(f"A sweep times each cell 1 to {MAX_REPEATS} times, got {repeats}.")
    if not cases:
        raise PromptError("A sweep needs at least one prompt.")
    keys = [(case.family, case.name) for case in cases]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise PromptError(
            f"Two prompts of the family '{twice[0]}' are called '{twice[1]}'. Rename one of them."
        )
    lanes, labels = complete([usual(models, lane) for lane in lanes], labels)
    check_lanes(models, lanes)
    rows = complete_turns(known, len(lanes))
    written = None
    if store is not None:
        written = SweepStore.open(store, about(models, lanes, labels), cases)
        rows += written.rows
    return _measure(models, list(cases), lanes, labels, repeats, cancelled, written, rows, on_progress)


def _measure(
    models: Models,
    cases: list[Case],
    lanes: list[Settings],
    labels: list[str],
    repeats: int,
    cancelled: Callable[[], bool],
    store: SweepStore | None,
    rows: list[MeasuredCase],
    on_progress: Callable[[SweepProgress], None],
) -> Iterator[MeasuredCase]:
    cells = {(case.family, case.name, fingerprint(case.asked)) for case in cases}
    rows = [row for row in rows if (row.family, row.name, row.prompt_sha) in cells and row.repeat < repeats]
    yield from rows
    there = {row.turn for row in rows}
    plain = {(row.family, row.name): row.text_sha for row in rows if row.lane == 0 and row.error is None}
    done, total = len(rows), len(cases) * len(lanes) * repeats
    if done < total:
        _warm_up(models, cases, lanes, cancelled)
    for case in cases:
        for repeat in range(repeats):
            if (case.family, case.name, repeat) in there:
                continue
            for at in range(len(lanes)):
                lane = (at + repeat) % len(lanes)
                if cancelled():
                    return
                on_progress(SweepProgress(done, total, case, labels[lane], repeat))
                row = MeasuredCase(case.family, case.name, lane, labels[lane], repeat)
                row.prompt_sha = fingerprint(case.asked)
                if not time_cell(models, case.asked, lanes[lane], cancelled, row):
                    return
                if lane == 0 and row.error is None:
                    plain.setdefault((case.family, case.name), row.text_sha)
                if row.error is None and (text := plain.get((case.family, case.name))):
                    row.same_text = row.text_sha == text
                if store is not None:
                    store.append(row)
                done += 1
                yield row


def _warm_up(
    models: Models, cases: Sequence[Case], lanes: Sequence[Settings], cancelled: Callable[[], bool]
) -> None:
    """A few rounds of each lane on the first readable prompt, as first passes are slow."""
    from specdec_core.engine.decode import stream

    for lane in lanes:
        for case in cases:
            if cancelled():
                return
            try:
                events = stream(models, case.asked, lane, cancelled=cancelled)
                for _ in islice((event for event in events if isinstance(event, Step)), WARM_UP):
                    pass
            except PromptError:
                continue
            except SettingsError:
                raise
            except Exception:  # reported by its cells
                log.exception("a lane of a sweep could not be warmed up")
            break


def time_cell(
    models: Models,
    prompt: Prompt,
    lane: Settings,
    cancelled: Callable[[], bool],
    row: MeasuredCase,
    look: Callable[[Trace], None] = lambda trace: None,
) -> bool:
    """Decode once and fill in the row's numbers; False if cancelled. `look` receives the trace."""
    from specdec_core.engine.decode import stream
    from specdec_core.engine.events import Finished

    trace = None
    try:
        for event in stream(models, prompt, lane, cancelled=cancelled):
            if isinstance(event, Finished):
                trace = event.trace
    except SpecdecError as error:
        row.error = str(error)
        return True
    except Exception as error:
        if cancelled():
            return False
        log.exception("a cell of a sweep failed")
        short = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        row.error = (
            "There was not enough memory for this cell. Use a smaller model, fewer tokens or a shorter prompt."
            if short
            else f"An error in the program ended this cell ({type(error).__name__}); the log has the details."
        )
        return True
    assert trace is not None
    if trace.end == "cancelled":
        return False
    stats = trace.stats
    for field in fields(row):
        if hasattr(stats, field.name):
            setattr(row, field.name, getattr(stats, field.name))
    row.seconds, row.end = stats.decode_s, trace.end
    row.text_sha = fingerprint(trace.token_ids)
    row.repeated = trace.loops().share
    look(trace)
    return True
