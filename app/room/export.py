"""The room's votes as a table: one row for each student and question, both votes side by side.

Cards are rows of their own, one for each vote and answer: who raised a card is not known, so nothing pairs them. What a
student's own tree measured is a row as well, which is neither right nor wrong. Nothing personal is in it beyond a
chosen nickname, and that only where the room asks for nicknames.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .states import Room
from .tally import OWN, Vote

COLUMNS = (
    "room", "by", "student", "nickname", "lesson", "question", "vote_1", "right_1", "seconds_1", "vote_2", "right_2",
    "seconds_2", "count",
)  # fmt: skip
FORMAT, VERSION = "specdec-room", 2


def rows(room: Room, votes: Sequence[Vote], names: Mapping[str, str], at: float) -> list[dict[str, Any]]:
    """The rows at this time, in the order of the first votes; students are numbered, so that no secret leaves the
    server. A vote whose verdict nobody has seen is not judged.
    """
    numbers: dict[str, int] = {}
    paired: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    unjudged = {OWN, *room.now.unseen, *room.now.secret(at)}
    for vote in sorted((vote for vote in votes if vote.count), key=lambda vote: (vote.at, vote.vote)):
        number = "" if vote.raised else numbers.setdefault(vote.student, len(numbers) + 1)
        row = paired.setdefault(
            (vote.student, vote.lesson, vote.part, vote.vote if vote.raised else 0),
            {
                **dict.fromkeys(COLUMNS, ""),
                "room": room.code,
                "by": "cards" if vote.raised else "student",
                "student": number,
                "nickname": names.get(vote.student, ""),
                "lesson": vote.lesson,
                "question": vote.part,
                "count": vote.count,
            },
        )
        row |= {
            f"vote_{vote.vote}": vote.given,
            f"right_{vote.vote}": "" if vote.part in unjudged else vote.right,
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
    text = (
        " ".join(value)
        if isinstance(value, list)
        else json.dumps(value)
        if isinstance(value, dict)
        else value
    )
    return f"'{text}" if isinstance(text, str) and text[:1] in tuple("=+-@\t\r") else text
