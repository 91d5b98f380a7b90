"""The file of a sweep: JSONL; the first line describes the sweep, each further line is one measured cell."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from specdec_core.foundations.errors import SpecdecError

from .cases import Case
from .measured import MeasuredCase, complete_turns, fingerprint

MAX_BYTES = 256_000_000
SAME = ("lanes", "target", "draft", "heads", "device", "dtype", "machine", "packages")


@dataclass(slots=True)
class SweepStore:
    """A sweep's file, ready for more rows; `rows` are those already in it."""

    path: Path
    rows: list[MeasuredCase]

    @classmethod
    def open(cls, path: Path, header: dict[str, Any], cases: Sequence[Case]) -> SweepStore:
        """Start a store, or continue one of the same sweep.

        Incomplete turns and a torn last line are removed from the file.

        Raises:
            SpecdecError: one sentence, if the file is unusable, not a store, or of another sweep.
        """
        try:
            content = path.read_bytes() if path.exists() else b""
            if len(content) > MAX_BYTES:
                raise SpecdecError(
                    f"'{path}' has {len(content):,} bytes; a sweep's file has at most {MAX_BYTES:,}."
                )
            lines = content.split(b"\n")
            torn = lines.pop()  # what follows the last line break: nothing, or a line that was cut off
            if not lines and torn:
                raise _no_store(path)
            rows = _read(path, lines, header, cases) if lines else []
            whole = complete_turns(rows, len(header["lanes"]))
            if not lines or torn or len(whole) < len(rows):
                text = lines[0].decode() if lines else json.dumps(header, ensure_ascii=False)
                beside = path.with_name(path.name + ".new")
                beside.write_text("\n".join([text, *map(_line, whole), ""]), encoding="utf-8")
                os.replace(beside, path)
        except OSError as error:
            raise SpecdecError(
                f"'{path}' cannot be used for the sweep: {error.strerror or 'unknown error'}. Choose another file."
            ) from None
        return cls(path, whole)

    def append(self, row: MeasuredCase) -> None:
        """Write one row; it is in the file when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row) + "\n")


def _read(
    path: Path, lines: list[bytes], header: dict[str, Any], cases: Sequence[Case]
) -> list[MeasuredCase]:
    try:
        kept = json.loads(lines[0])
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict) or kept.get("format") != header["format"]:
        raise _no_store(path)
    if kept.get("version") != header["version"]:
        raise SpecdecError(f"'{path}' is the file of a sweep of another version. Choose another file.")
    current = json.loads(json.dumps(header))
    for name in SAME:
        if kept.get(name) != current[name]:
            raise SpecdecError(
                f"'{path}' holds a sweep with other {_WORDS.get(name, name)}, so this one cannot go on in it. Repeat "
                "that sweep's command to continue it, or choose another file."
            )
    prompts = {(case.family, case.name): fingerprint(case.asked) for case in cases}
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            row: MeasuredCase = row_format().validate_json(line)
        except ValidationError:
            raise SpecdecError(
                f"Line {number} of '{path}' is damaged. Take that line out, or choose another file."
            ) from None
        if prompts.get((row.family, row.name), row.prompt_sha) != row.prompt_sha:
            raise SpecdecError(
                f"'{path}' holds another prompt under the name '{row.name}' of the family '{row.family}'. Rename the "
                "prompt, or choose another file."
            )
        rows.append(row)
    return rows


_WORDS = {
    "target": "models",
    "draft": "models",
    "packages": "versions of the programs",
    "machine": "hardware",
}


def _no_store(path: Path) -> SpecdecError:
    return SpecdecError(f"'{path}' is not a sweep's file, and was not changed. Choose another file.")


def _line(row: MeasuredCase) -> str:
    return json.dumps(asdict(row), ensure_ascii=False)


@cache
def row_format() -> TypeAdapter[Any]:
    """Reads and checks a row."""
    setattr(MeasuredCase, "__pydantic_config__", ConfigDict(extra="forbid", allow_inf_nan=False))  # noqa: B010
    return TypeAdapter(MeasuredCase)
