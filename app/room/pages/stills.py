"""A lesson's picture for a class, as plain values: it is made once and sent to everybody.

What was done with its controls is a list of moves, and the same moves give the same picture, in each language: a
control is known by its key, what is chosen by its place in the list.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from app import player
from app.charts.chart import Chart
from app.charts.draw import inked
from app.course import pictures
from app.course.drawing.projector import localised
from app.course.drawing.scene import Button, Choice, Component, Html, Markdown, Part, Place, each
from app.course.files.lesson import Picture
from app.room.asked import asked
from app.room.states import is_cursor
from app.running.flow import PROPOSER_WORDS, RULE_WORDS
from app.theme import TEXT

from .marked import html, inline

log = logging.getLogger(__name__)

IN_ROOM = Path(__file__).with_name("player.css")
BUILDER = Path(pictures.__file__).with_name("runs") / "tree_builder.css"
KINDS = {"slider": "slider", "buttons": "group", "list": "select"}
Moves = tuple[tuple[str, Any], ...]
Node = dict[str, Any]
_one = threading.Lock()  # one at a time: a picture takes up to half a second of a processor


def still(language: str, lesson: str, step: str, moves: Moves = ()) -> list[Node] | None:
    """The picture of a lesson's step after these moves; None if there is none.

    Where the host stands in a player changes no drawing: the pages set their own players to it.
    """
    with _one:
        return _still(language, lesson, step, json.dumps([move for move in moves if not is_cursor(move[1])]))


@lru_cache(maxsize=400)
def _still(language: str, lesson: str, step: str, moves: str) -> list[Node] | None:
    question = asked(language, lesson, "predict")
    picture = question.picture(step) if question is not None else None
    if question is None or picture is None:
        return None
    try:
        return drawn(picture, Place(lesson, step, question.words), json.loads(moves))
    except Exception:
        log.exception("a lesson's picture could not be drawn for a room")
        return []


def drawn(picture: Picture, at: Place, moves: Sequence[tuple[str, Any]] = ()) -> list[Node]:
    """The picture after these moves, part by part; what a class has no use for is left out."""
    values = _moved(picture, at, moves)
    parts = [*pictures.controls(picture, at, values), *pictures.scene(picture, at, values)]
    return [node for part in each(parts) if (node := _node(part, at, values)) is not None]


def _moved(picture: Picture, at: Place, moves: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The picture's values after these moves; those that its controls cannot make change nothing."""
    values: dict[str, Any] = {}
    for key, move in moves:
        parts = each(pictures.controls(picture, at, values))
        known = {at.key(part.name): part for part in parts if isinstance(part, Button | Choice)}
        part = known.get(key)
        if key == at.key("builder"):
            values |= pictures.acted(picture, at, values, "builder", move)
        elif isinstance(part, Button) and not part.off and move is None:
            values |= part.sets or {}
        elif isinstance(part, Choice) and (place := _place(move, part)) is not None:
            kept = {name: value for name, value in values.items() if name not in part.resets}
            values = {**kept, part.name: part.options[place]}
    return values


def _place(move: Any, part: Choice) -> int | None:
    """The place among a control's options that is meant; None if it has none such."""
    if part.look != "list":
        move = move[0] if isinstance(move, list) and len(move) == 1 else None
    return move if type(move) is int and 0 <= move < len(part.options) else None


def _node(part: Part, at: Place, values: dict[str, Any]) -> Node | None:
    match part:
        case Html():
            return {"kind": "html", "html": part.html}
        case Markdown() if part.look != "code":
            return {"kind": "text", "html": html(part.text), "small": part.look == "small"}
        case Chart():
            figure = inked(localised(part, at.words).figure, TEXT.light)
            source = html(part.provenance) if part.provenance else ""
            return {
                "kind": "chart", "title": html(f"**{part.title}**"), "figure": json.loads(figure.to_json()),
                "alt": part.alt, "source": source,
            }  # fmt: skip
        case Component():
            return {
                "kind": "component", "id": at.key(part.name), "module": part.module, "css": _css(part.module),
                "data": _data(part),
            }  # fmt: skip
        case Choice():
            place = list(part.options).index(part.of(values))
            return {
                "kind": KINDS[part.look], "id": at.key(part.name), "label": inline(part.label),
                "names": list(part.names), "value": [place] if part.look == "buttons" else place,
            }  # fmt: skip
        case Button() if part.sets is not None:
            return {"kind": "button", "id": at.key(part.name), "label": inline(part.label), "off": part.off}
    return None


def _data(part: Component) -> dict[str, Any]:
    shown = dict(part.data)
    if part.module == "player":
        return player.data(**shown, rules=RULE_WORDS, proposers=PROPOSER_WORDS, addressed=True)
    return shown


def _css(module: str) -> str:
    """The sheets of a component, which a Streamlit page has from its registration."""
    sheets = [*sorted(player.SHEETS.glob("*.css")), IN_ROOM] if module == "player" else [BUILDER]
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
