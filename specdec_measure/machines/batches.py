"""What guessing gains when several requests are served together; `python -m benchmarks.batch` measures it.

Beside each measured speedup is the one that is expected from the passes of a single request, if a pass over n tokens
of B texts takes as long as one over B × n tokens of one. Nothing here imports torch.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from specdec_core.foundations.errors import SettingsError, sentence
from specdec_core.foundations.paths import assets

from .costs import MAX_BATCH, Short, StrictModel

FILE = assets() / "models" / "batches.json"
MAX_BYTES = 200_000
BUSY = 0.5

Ratio = Annotated[float, Field(gt=0.0, le=1e4)]


class BatchTimes(StrictModel):
    """One proposer at one batch size.

    Attributes:
        batch: requests served together.
        speedup: tokens a second of all requests over those of plain decoding of as many: the geometric mean over the
            repeats; `low` and `high` are its 95% interval.
        tokens_per_pass: τ, pooled over all requests and repeats.
        expected: of these rounds, by the passes of a single request.
        plain, tokens_per_second: of all requests together, medians.
    """

    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    speedup: Ratio
    low: Ratio
    high: Ratio
    tokens_per_pass: Annotated[float, Field(ge=1.0, le=1_000.0)]
    expected: Ratio
    plain: Annotated[float, Field(gt=0.0, le=1e9)]
    tokens_per_second: Annotated[float, Field(gt=0.0, le=1e9)]

    @model_validator(mode="after")
    def _interval(self) -> BatchTimes:
        if not self.low <= self.speedup <= self.high:
            raise ValueError("the speedup lies within its interval")
        return self


class BatchServed(StrictModel):
    """One proposer, at all batch sizes."""

    proposer: Short
    batches: Annotated[tuple[BatchTimes, ...], Field(min_length=1, max_length=64)]

    def at(self, batch: int) -> BatchTimes | None:
        """The measurement at that batch size, if there is one."""
        return next((one for one in self.batches if one.batch == batch), None)


class Batches(StrictModel):
    """A file of measurements.

    Attributes:
        machine, device, dtype, threads: where, and the number of CPU threads used.
        clock: whether the time that passed was counted, or the processor's, on a machine that was busy.
        load: what else the machine was doing as the measurement began: processes waiting for a core.
        target, draft: names of the models.
        temperature, draft_length, tokens: of the runs; tokens written per request.
        repeats: how often each was measured, each time with other prompts, plain decoding in turn with the others.
        repeated: the share of the texts' tokens that repeat earlier output (see `record.repeats`), easy to guess.
        other_texts: greedy texts that were not those of plain decoding, of `texts`.
        date, packages: when (ISO 8601, UTC), with which versions.
    """

    format: Literal["specdec-batches"]
    version: Literal[1]
    machine: Short
    device: Short
    dtype: Short
    threads: Annotated[int, Field(ge=1, le=10_000)]
    clock: Literal["wall", "processor"]
    load: Annotated[float, Field(ge=0.0, le=1e5)]
    target: Short
    draft: Short
    temperature: Annotated[float, Field(ge=0.0, le=10.0)]
    draft_length: Annotated[int, Field(ge=1, le=64)]
    tokens: Annotated[int, Field(ge=1, le=100_000)]
    repeats: Annotated[int, Field(ge=1, le=100_000)]
    repeated: Annotated[float, Field(ge=0.0, le=1.0)]
    texts: Annotated[int, Field(ge=0, le=10**9)]
    other_texts: Annotated[int, Field(ge=0, le=10**9)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[0-9:+.Z-]{1,30}$")]
    packages: Annotated[dict[Short, Short], Field(max_length=32)]
    lanes: Annotated[tuple[BatchServed, ...], Field(min_length=1, max_length=16)]

    @property
    def busy(self) -> bool:
        """Whether other programs were running, and counted."""
        return self.clock == "wall" and self.load > BUSY

    def of(self, proposer: str) -> BatchServed | None:
        """What was measured of that proposer."""
        return next((one for one in self.lanes if one.proposer == proposer), None)


def read(path: Path = FILE) -> Batches:
    """A file of measurements.

    Raises:
        SettingsError: one sentence, naming what is wrong with it.
    """
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError:
        raise SettingsError(
            f"{path.name} is missing; `python -m benchmarks.batch --json` writes it."
        ) from None


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Batches:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        return Batches.model_validate_json(data)
    except ValidationError as error:
        raise SettingsError(f"{path.name} is not a file of measured batches: {sentence(error)}") from None
    except ValueError as error:
        raise SettingsError(f"{path.name} is not a file of measured batches: {error}.") from None


def write(batches: Batches, path: Path) -> None:
    """Write the file, whole or not at all.

    Raises:
        OSError: if it cannot be written.
    """
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(batches.model_dump_json(indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
