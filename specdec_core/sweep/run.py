"""A sweep: many prompts through several lanes, each cell timed a few times, plain decoding always among the lanes.

For every prompt the lanes take turns (A B C, then B C A, …), so that a slow minute of the machine falls on all of
them and none always comes first. A speedup is a cell's speed over that of plain decoding in the same turn. Rows can be
kept in a store (JSONL) and the sweep goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.chat import Prompt
from specdec_core.engine.events import Step
from specdec_core.errors import PromptError, SettingsError, SpecdecError
from specdec_core.settings import Settings

from .cases import Case
from .lanes import about, check_lanes, complete, label
from .totals import LEAST_TOKENS, frame, summary, wilson

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

__all__ = [
    "LEAST_TOKENS",
    "Measured",
    "Progress",
    "about",
    "complete",
    "frame",
    "label",
    "summary",
    "sweep",
    "wilson",
]

log = logging.getLogger(__name__)

MAX_REPEATS = 20
WARM_UP = 8  # rounds of each lane that nobody times


@dataclass(slots=True)
class Measured:
    """One cell: a prompt in a lane, once. Times are seconds on the lane's clock, prefill and recording apart.

    Attributes:
        lane: its number; 0 is plain decoding.
        repeat: which turn it was measured in, from 0.
        seconds: draft_s + verify_s + other_s.
        acceptance_rate: accepted / (accepted + rejected); None on trees, and where nothing was judged.
        same_text: whether its tokens are lane 0's; None where lane 0 has none.
        repeated: the share of its tokens that repeat earlier output (see `loops`); None in files of older versions.
        end: why the text ended; empty after an error.
        error: the sentence that stands in place of numbers, if the cell failed.
        prompt_sha, text_sha: fingerprints of the prompt and of the committed token ids.
    """

    family: str
    name: str
    lane: int
    label: str
    repeat: int
    tokens: int = 0
    target_passes: int = 0
    draft_passes: int = 0
    proposed: int = 0
    accepted: int = 0
    rejected: int = 0
    seconds: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    other_s: float = 0.0
    prefill_s: float = 0.0
    acceptance_rate: float | None = None
    tokens_per_pass: float | None = None
    same_text: bool | None = None
    repeated: float | None = None
    end: str = ""
    error: str | None = None
    prompt_sha: str = ""
    text_sha: str = ""

    @property
    def turn(self) -> tuple[str, str, int]:
        """The cells that are compared with each other share this."""
        return self.family, self.name, self.repeat


@dataclass(frozen=True, slots=True)
class Progress:
    """What is about to be measured, and how many cells of how many are done."""

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
    known: Sequence[Measured] = (),
    told: Callable[[Progress], None] = lambda progress: None,
) -> Iterator[Measured]:
    """Measure every prompt in every lane; rows come as they are measured, those already known first.

    Args:
        cases: prompts; no two may share family and name.
        lanes: lane 0 is plain decoding, put in front where it is missing. All must ask for the same text.
        repeats: how many times each cell is timed.
        labels: what the lanes are called, `label` of their settings by default; one for each of the lanes as given.
        cancelled: asked between and within rounds; the cell at hand is then dropped and the sweep ends.
        store: a JSONL file; rows are appended to it, and what it holds is not measured again.
        known: rows of an earlier part of the same sweep that are in no store.
        told: hears what comes next.

    A turn that was cut short is measured anew: no speedup without a baseline of the same run. A cell that fails is a
    row with an error, and the sweep goes on.

    Raises:
        SpecdecError: one sentence, before the first row: lanes that do not go together or cannot run with these
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
    lanes, labels = complete(lanes, labels)
    check_lanes(models, lanes)
    rows = complete_turns(known, len(lanes))
    written = None
    if store is not None:
        from .store import Store

        written = Store.open(store, about(models, lanes, labels), cases)
        rows += written.rows
    return _measure(models, list(cases), lanes, labels, repeats, cancelled, written, rows, told)


def fingerprint(content: object) -> str:
    """A short name for a text or for a list of token ids."""
    return sha256(str(content).encode(errors="surrogatepass")).hexdigest()[:16]


def complete_turns(rows: Iterable[Measured], lanes: int) -> list[Measured]:
    """The rows of those turns in which every lane was measured."""
    turns: dict[tuple[str, str, int], dict[int, Measured]] = {}
    for row in rows:
        turns.setdefault(row.turn, {})[row.lane] = row
    return [row for turn in turns.values() if len(turn) == lanes for row in turn.values()]


def _measure(
    models: Models,
    cases: list[Case],
    lanes: list[Settings],
    labels: list[str],
    repeats: int,
    cancelled: Callable[[], bool],
    store: Any,
    rows: list[Measured],
    told: Callable[[Progress], None],
) -> Iterator[Measured]:
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
                told(Progress(done, total, case, labels[lane], repeat))
                row = Measured(case.family, case.name, lane, labels[lane], repeat)
                row.prompt_sha = fingerprint(case.asked)
                if not _time(models, case.asked, lanes[lane], cancelled, row):
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
    """A few rounds of each lane on the first prompt that can be read: first passes are slow."""
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
            except Exception:  # its cells will say so
                log.exception("a lane of a sweep could not be warmed up")
            break


def _time(
    models: Models, prompt: Prompt, lane: Settings, cancelled: Callable[[], bool], row: Measured
) -> bool:
    """Decode once and fill the row's numbers in; False if that was cancelled."""
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
            "The memory was not enough for this cell. Take a smaller model, fewer tokens or a shorter prompt."
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
    return True
