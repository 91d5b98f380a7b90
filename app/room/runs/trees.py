"""A student's own run while all play: a tree whose shape is chosen, in the line that all runs of this server wait in.

On the challenge's prompt it counts: what the server measured is kept, and nothing that a browser claims.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from app import services
from app.choosing import defaults, presets
from app.decoding.run import Run
from app.room.states import Room, RoomRefused
from app.room.store import Rooms

from . import running

log = logging.getLogger(__name__)


def begin(rooms: Rooms, room: Room, seat: str, body: dict[str, Any]) -> Run:
    """Start it; an earlier one of this student ends. Without a prompt it is the challenge's.

    Raises:
        Refused: with a sentence, if it cannot be started.
    """
    prompt, width, depth = str(body.get("prompt") or "").strip(), body.get("width"), body.get("depth")
    if type(width) is not int or type(depth) is not int:
        raise RoomRefused("Choose a width and a depth.")
    kind, shape = running.kind(), {"width": width, "depth": depth}

    def over(run: Run) -> None:
        try:
            if rooms.room(room.code) is None:
                services.runs().forget(run.id)  # deleted meanwhile, perhaps before the database had this run
            elif not prompt and (measured := result(run)):
                rooms.ran(
                    room.code, seat, room.now.lesson, {"model": defaults.of(kind).short, **shape, **measured}
                )
        except Exception:  # a database that is away: the run itself is done
            log.warning("a student's run could not be kept", exc_info=True)

    guest = running.guest(room.code, seat)
    for before in services.runs().of(guest):
        before.cancel()  # a student has one at a time
    return running.own_tree(guest, prompt or challenge(kind), kind, width, depth, over)


def challenge(kind: str) -> str:
    """The prompt on which all trees are compared: the first that ships for such models."""
    return presets.offered(defaults.of(kind).audience)[0].presets[0].text


def result(run: Run) -> dict[str, float] | None:
    """What was measured of a run that reached its end."""
    said = [json.loads(message) for message in run.messages if message.startswith('{"type":"finished"')]
    if run.error or not said or said[-1]["end"] == "cancelled":
        return None
    speed, per_pass = (said[-1]["stats"][name] for name in ("tokens_per_second", "tokens_per_pass"))
    return {"speed": speed, "per_pass": per_pass} if speed and per_pass else None
