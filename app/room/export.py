"""The room's votes as a table: one row for each student and question, both votes side by side.

Nothing personal is in it beyond a chosen nickname, and that only where the room asks for nicknames.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .states import Room
from .tally import Vote

COLUMNS = (
    "room", "student", "nickname", "lesson", "question", "vote_1", "right_1", "seconds_1", "vote_2", "right_2",
    "seconds_2", "count",
)  # fmt: skip
FORMAT, VERSION = "specdec-room", 1


def rows(room: Room, votes: Sequence[Vote], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows, in the order of the first votes; students are numbered, so that no secret leaves the server."""
    numbers: dict[str, int] = {}
    paired: dict[tuple[str, str, str], dict[str, Any]] = {}
    for vote in sorted(votes, key=lambda vote: (vote.at, vote.vote)):
        number = numbers.setdefault(vote.student, len(numbers) + 1)
        row = paired.setdefault(
            (vote.student, vote.lesson, vote.part),
            {
                **dict.fromkeys(COLUMNS, ""),
                "room": room.code,
                "student": number,
                "nickname": names.get(vote.student, ""),
                "lesson": vote.lesson,
                "question": vote.part,
                "count": vote.count,
            },
        )
        row |= {
            f"vote_{vote.vote}": vote.given,
            f"right_{vote.vote}": vote.right,
            f"seconds_{vote.vote}": round(vote.seconds, 1),
        }
    return list(paired.values())


def as_json(room: Room, found: Sequence[Mapping[str, Any]]) -> str:
    """As one JSON document."""
    head = {"format": FORMAT, "version": VERSION, "room": room.code, "lessons": list(room.order)}
    return json.dumps({**head, "rows": list(found)}, ensure_ascii=False, indent=2)


def as_csv(found: Sequence[Mapping[str, Any]]) -> str:
    """As CSV; what a spreadsheet would take for a formula is kept a text."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in found:
        writer.writerow([_cell(row[column]) for column in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    text = " ".join(value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in tuple("=+-@\t\r") else text
