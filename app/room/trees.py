"""A student's own run while all play: a tree whose shape is chosen, in the line that all runs of this server wait in.

On the challenge's prompt it counts: what the server measured is kept, and nothing that a browser claims.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from app import services
from app.choosing import presets, usual
from app.decoding.run import Run

from . import running
from .states import Refused, Room
from .store import Rooms

log = logging.getLogger(__name__)

MOST_KEPT = 5_000
_mine: dict[tuple[str, str], list[str]] = {}
"""The runs that each seat has started in this process, the latest last: a student has one at a time."""


def begin(rooms: Rooms, room: Room, seat: str, body: dict[str, Any]) -> Run:
    """Start it; an earlier one of this student ends. Without a prompt it is the challenge's.

    Raises:
        Refused: with a sentence, if it cannot be started.
    """
    prompt, width, depth = str(body.get("prompt") or "").strip(), body.get("width"), body.get("depth")
    if type(width) is not int or type(depth) is not int:
        raise Refused("Choose a width and a depth.")
    kind, shape = running.kind(), {"width": width, "depth": depth}

    def over(run: Run) -> None:
        if not prompt and (measured := result(run)):
            try:
                rooms.ran(
                    room.code, seat, room.now.lesson, {"model": usual.of(kind).short, **shape, **measured}
                )
            except Exception:  # a room that was deleted, a database that is away: the run itself is done
                log.warning("a student's run could not be kept", exc_info=True)

    if len(_mine) >= MOST_KEPT:
        _mine.clear()
    mine = _mine.setdefault((room.code, seat), [])
    if mine and (before := services.runs().get(mine[-1])):
        before.cancel()
    run = running.own_tree(f"{room.code} {seat}", prompt or challenge(kind), kind, width, depth, over)
    mine.append(run.id)
    return run


def forget(code: str) -> None:
    """End the runs of a room's students and delete what they said."""
    for key in [key for key in _mine if key[0] == code]:
        for run in _mine.pop(key):
            services.runs().forget(run)


def challenge(kind: str) -> str:
    """The prompt on which all trees are compared: the first that ships for such models."""
    return presets.offered(usual.of(kind).audience)[0].presets[0].text


def result(run: Run) -> dict[str, float] | None:
    """What was measured of a run that reached its end."""
    said = [json.loads(message) for message in run.messages if message.startswith('{"type":"finished"')]
    if run.error or not said or said[-1]["end"] == "cancelled":
        return None
    speed, per_pass = (said[-1]["stats"][name] for name in ("tokens_per_second", "tokens_per_pass"))
    return {"speed": speed, "per_pass": per_pass} if speed and per_pass else None
