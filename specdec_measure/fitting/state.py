"""What a fit has measured so far: a file of JSON lines in its folder, from which the same fit continues."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from specdec_core.foundations.errors import SpecdecError
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.store import row_format

FILE = "state.jsonl"
FORMAT, VERSION = "specdec-fit", 1
MAX_BYTES = 256_000_000

Stage = Literal["scouting", "search", "held back"]
Key = tuple[str, str, str, str, int]  # stage, candidate, family, name, repeat


@dataclass(slots=True)
class FitCell:
    """One prompt decoded by one candidate, once.

    Attributes:
        candidate: its label; plain decoding's among them.
        measured: what was timed and counted.
        calculated: seconds that the text would take among many requests, where the wish is throughput.
        runs: how often it was measured; the fastest counts.
    """

    stage: Stage
    candidate: str
    measured: MeasuredCase
    calculated: float | None = None
    runs: int = 1

    @property
    def key(self) -> Key:
        """Unique among a fit's cells."""
        row = self.measured
        return self.stage, self.candidate, row.family, row.name, row.repeat

    @property
    def seconds(self) -> float:
        """What the wish is about: the lane's own clock, or the calculated time."""
        return self.measured.seconds if self.calculated is None else self.calculated

    @property
    def usable(self) -> bool:
        """Whether its speed counts."""
        return self.measured.error is None and self.measured.tokens > 0 and self.seconds > 0


@dataclass(slots=True)
class FitState:
    """The file and what is in it.

    Attributes:
        spent: seconds that the fit has taken, over all its sessions.
        decided: what was decided between measurements, by name: the labels kept after each step of the search.
        facts: what else was found out once, such as what training reported.
    """

    path: Path
    cells: dict[Key, FitCell] = field(default_factory=dict)
    decided: dict[str, list[str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    spent: float = 0.0

    @classmethod
    def open(cls, folder: Path, header: dict[str, Any]) -> FitState:
        """Start a fit in a folder, or continue the one that is there.

        Raises:
            SpecdecError: one sentence: the folder cannot be used, or holds another fit.
        """
        state = cls(folder / FILE)
        header = {"format": FORMAT, "version": VERSION, **json.loads(json.dumps(header))}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            content = state.path.read_bytes() if state.path.exists() else b""
            if len(content) > MAX_BYTES:
                raise SpecdecError(
                    f"'{state.path}' has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
                )
            *lines, torn = content.split(b"\n")
            if lines:
                state._read(lines, header)
            if not lines or torn:  # a new file, or one whose last line was cut off
                first = lines or [json.dumps(header, ensure_ascii=False).encode()]
                beside = state.path.with_name(FILE + ".new")
                beside.write_bytes(b"\n".join([*first, b""]))
                os.replace(beside, state.path)
        except OSError as error:
            raise SpecdecError(
                f"The folder '{folder}' cannot be used: {error.strerror or 'unknown error'}. Choose another one."
            ) from None
        return state

    def add(self, cell: FitCell, spent: float) -> None:
        """Keep a cell, in place of one of the same key; it is in the file when this returns."""
        self.cells[cell.key] = cell
        self._append({"cell": asdict(cell)}, spent)

    def decide(self, name: str, labels: Sequence[str], spent: float) -> None:
        """Keep a decision."""
        self.decided[name] = list(labels)
        self._append({"decided": name, "labels": list(labels)}, spent)

    def plan(self, minutes: float) -> None:
        """Another time than before: what was measured stays, what was decided is decided again."""
        if self.facts.get("minutes") != minutes:
            self.decided.clear()
            self.note("minutes", minutes, self.spent)

    def note(self, name: str, value: Any, spent: float) -> None:
        """Keep a fact that JSON can hold."""
        self.facts[name] = value
        self._append({"fact": name, "value": value}, spent)

    def _append(self, line: dict[str, Any], spent: float) -> None:
        self.spent = spent
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "spent": round(spent, 3)}, ensure_ascii=False) + "\n")

    def _read(self, lines: Sequence[bytes], header: dict[str, Any]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                if number == 1:
                    self._same(found, header)
                else:
                    self._take(found)
            except SpecdecError:
                raise
            except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
                # without its first line, which says of what it is, a file is no fit's
                way = "Delete the file to begin again" if number == 1 else "Take that line out"
                raise SpecdecError(
                    f"Line {number} of '{self.path}' is damaged. {way}, or choose another folder."
                ) from None

    def _same(self, found: Any, header: dict[str, Any]) -> None:
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise SpecdecError(
                f"'{self.path}' is not a fit's file, and was not changed. Choose another folder, or delete the file "
                "to begin again."
            )
        for name, value in header.items():
            if found.get(name) != value:
                raise SpecdecError(
                    f"'{self.path.parent}' holds a fit with other {_WORDS.get(name, name)}, and figures of both do not "
                    "mix. Repeat that fit's command to continue it, or choose another folder."
                )

    def _take(self, line: Any) -> None:
        if "cell" in line:
            given = dict(line["cell"])
            cell = FitCell(
                given["stage"], given["candidate"], row_format().validate_python(given["measured"]),
                given["calculated"], int(given.get("runs", 1)),
            )  # fmt: skip
            self.cells[cell.key] = cell
        elif "decided" in line:
            self.decided[str(line["decided"])] = [str(label) for label in line["labels"]]
        else:
            self.facts[str(line["fact"])] = line["value"]
            if line["fact"] == "minutes":
                self.decided.clear()
        self.spent = float(line["spent"])


_WORDS = {
    "load": "models", "models": "models", "packages": "versions of the programs", "machine": "hardware",
    "wish": "aims", "requests": "numbers of requests", "training": "choices about training",
    "lossy": "choices of rules",
}  # fmt: skip
