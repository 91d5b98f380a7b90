"""What the host does to a room, as it comes from the host's page: {"move": its name, and what it needs}."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from app.player import CURSOR

from . import states
from .asked import asked
from .lesson_plan import titles
from .pages.views import current
from .runs import running
from .runs.together import NOTHING, ClassRun, RunProgress
from .states import MOST_MOVES, MOVED_ON, STEERED, Now, Room, RoomRefused, is_cursor
from .store import Rooms

MOST_CARDS = 999
MOST_KEY = 200  # characters of a control's id
READ = "This request cannot be read."
Body = dict[str, Any]


def start(rooms: Rooms, lessons: Sequence[str], language: str, named: bool) -> tuple[str, str]:
    """A new room: its code and the host's secret. Old ones make room for it.

    Raises:
        Refused: if there are too many.
    """
    for code in rooms.outdated():
        delete(rooms, code)
    return rooms.create(lessons, language, named)


def perform(rooms: Rooms, code: str, body: Body) -> None:
    """Do what the host asks.

    Raises:
        Refused: one sentence, if it cannot be done.
    """
    room, move = rooms.room(code), body.get("move")
    if move == "cards":
        rooms.raised(code, _cards(room, body))
        return
    if room is not None:  # what takes seconds is done here: no transaction should wait for it
        asked(room.language, str(body.get("lesson", "")), "predict")
    if room is not None and move == "run":
        _run(rooms, room, body)
        return
    heard = running.said(room.now.run) if room is not None and move in STEERED else NOTHING
    rooms.drive(code, lambda room, at: changed(room, at, body, heard=heard))


def _run(rooms: Rooms, room: Room, body: Body) -> None:
    """Start a run that the class follows; the one before is deleted."""
    before = room.now.run
    if body.get("step") != room.now.step or "run" not in states.possible(room.now):
        raise RoomRefused(MOVED_ON)
    number = (before.number if before else 0) + 1
    started = running.begin(room.code, str(body.get("prompt", "")), number, str(body.get("model", "")))
    try:
        rooms.drive(room.code, lambda room, at: changed(room, at, body, started))
    except Exception:
        running.forget(started)
        raise
    running.forget(before)


def delete(rooms: Rooms, code: str) -> None:
    """Delete a room with everything in it, and what its runs said."""
    running.forget_all(code, rooms.delete(code))


def changed(
    room: Room, at: float, body: Body, started: ClassRun | None = None, heard: RunProgress = NOTHING
) -> Room:
    """The room after one of `states.possible`, or after `longer`, `insert` or `control`.

    `started` is the run that the class follows from now on, `heard` what the one that it follows has said.
    """
    move, now = body.get("move"), room.now
    # A button counts for what the host saw: a second press, or one on another device meanwhile, does nothing.
    if body.get("step") != now.step:
        raise RoomRefused(MOVED_ON)
    if move in states.possible(now):
        lesson, picture = str(body.get("lesson", now.lesson)), str(body.get("picture", "watch"))
        if move == "open" and lesson not in room.order:
            raise RoomRefused("This lesson is not one of this room's.")
        if move in ("open", "check", "follow") and asked(room.language, lesson, "predict") is None:
            raise RoomRefused("This lesson has a mistake in its file; choose another.")
        if picture not in ("watch", "change"):
            raise RoomRefused(READ)
        run = states.steered(now, str(move), heard, at) if move in STEERED else started
        return replace(room, now=states.step(now, str(move), at, lesson, picture, run))
    if isinstance(move, str) and move in _BESIDES:
        return _BESIDES[move](room, now, at, body)
    raise RoomRefused(MOVED_ON)


def moves(given: Any) -> tuple[tuple[str, Any], ...]:
    """Moves on a picture's controls, as a page sends them; what cannot be one is left out."""
    found = []
    for each in given[-MOST_MOVES:] if isinstance(given, list) else []:
        if isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and len(each[0]) < MOST_KEY:
            value = _value(each[1])
            if value is not None or each[1] is None:
                found.append((each[0], value))
    return tuple(found)


def _value(value: Any) -> Any:
    """A control's value: a short text, a number, or several of them; None presses a button.

    Of the tree builder it is what is done to which node, of a player the cursor that the class follows.
    """
    if is_cursor(value):
        found = value["cursor"] if isinstance(value["cursor"], dict) else {}
        return {"cursor": {name: _single(found.get(name)) for name in (*CURSOR, "of")}}
    if isinstance(value, dict):
        path = value.get("path")
        if value.get("do") not in ("add", "remove") or not isinstance(path, list):
            return None
        return {"do": value["do"], "path": [step for step in path[:MOST_MOVES] if type(step) is int]}
    if isinstance(value, list):
        return [each for each in map(_single, value[:12]) if each is not None]
    return _single(value)


def _single(value: Any) -> str | float | None:
    if isinstance(value, str):
        return value[:MOST_KEY]
    return value if isinstance(value, int | float) and isfinite(value) else None


def _longer(room: Room, now: Now, at: float, body: Body) -> Room:
    if now.state == "run" and now.votes_on(at) is None:  # the verdict is on the pages
        raise RoomRefused(MOVED_ON)
    return replace(room, now=states.longer(now, at))


def _insert(room: Room, now: Now, at: float, body: Body) -> Room:
    """A lesson comes next, wherever it was."""
    lesson = str(body.get("lesson"))
    if lesson not in titles(room.language):
        raise RoomRefused("The course has no such lesson.")
    rest = [key for key in room.order if key != lesson]
    where = rest.index(now.lesson) + 1 if now.lesson in rest else 0
    return replace(room, order=(*rest[:where], lesson, *rest[where:]))


def _control(room: Room, now: Now, at: float, body: Body) -> Room:
    found = moves([[body.get("control"), body.get("value")]])
    if now.state != "follow" or not found:
        raise RoomRefused(READ)
    return replace(room, now=states.moved(now, *found[0]))


_BESIDES: dict[Any, Callable[[Room, Now, float, Body], Room]] = {
    "longer": _longer,
    "insert": _insert,
    "control": _control,
}


def _cards(room: Room | None, body: Body) -> list[tuple[Any, bool, int]]:
    """Raised cards: {"counts": {option: how many}}."""
    question = current(room, room.language) if room is not None else None
    counts = body.get("counts")
    if room is None or room.now.step != body.get("step"):
        raise RoomRefused(MOVED_ON)
    if question is None or question.kind != "choice" or room.now.state not in ("open", "check", "locked"):
        raise RoomRefused("Cards can be counted while a question with one answer is open.")
    if not isinstance(counts, dict) or not all(
        key in question.items and type(number) is int and 0 <= number <= MOST_CARDS
        for key, number in counts.items()
    ):
        raise RoomRefused(READ)
    return [(key, question.is_right(key), number) for key, number in counts.items()]
