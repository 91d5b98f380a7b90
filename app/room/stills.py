"""A lesson's picture outside a Streamlit session: what its `draw` puts on a page, as plain values.

The pictures are written for Streamlit's pages. A class cannot have a session each, so the picture is drawn once, into a
list instead of a browser, and the list is sent to everybody. Its controls come along as plain ones: what was done with
them is a list of moves, and the same moves give the same picture, in each language: a control is known by its key, what
is chosen by its place in the list.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.course import pictures
from app.course.pictures import Place
from app.player import SHEETS
from app.ui.quirks import Offscreen

from .asked import asked
from .marked import html, inline
from .states import is_cursor

log = logging.getLogger(__name__)

MAIN = Path(__file__).resolve().parents[1] / "main.py"
IN_ROOM = Path(__file__).with_name("player.css")
# Buttons that only move the picture on; the others measure, decode or read, which is not for a whole class at once.
PRESSED = frozenset(
    {"stairs", "same-distribution", "trials", "race", "tree-builder", "rounding", "window", "heads"}
)
Moves = tuple[tuple[str, Any], ...]
Node = dict[str, Any]
_NAMED = re.compile(
    r"\$\$ID-[0-9a-f]+-(?!None$)(.+)", re.DOTALL
)  # Streamlit's id: a hash, of its texts as well, and the key
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
    place = Place(lesson, step, question.words)
    pressed = picture.picture in PRESSED
    elements = _drawn(lambda: pictures.draw(picture, place), json.loads(moves), pressed)
    nodes = [node for element in elements if (node := _node(element, pressed)) is not None]
    return [_held(node, dict(json.loads(moves))) for node in nodes]


def _held(node: Node, moved: dict[str, Any]) -> Node:
    """A control with the value that a browser would still show, unless the picture has set it."""
    value: Any = moved.get(node.get("id", ""))
    if node["kind"] not in ("slider", "group", "select") or node["set"] or not _takes(node, value):
        return node
    return {**node, "value": value[0] if node["kind"] == "slider" else value}


def _takes(node: Node, value: Any) -> bool:
    """Whether a control can show this value; Streamlit drops any other, so the page must not show it either."""
    if node["kind"] == "select":
        return _place(value, node["names"]) is not None
    if not isinstance(value, list) or (len(value) != 1 and node["kind"] == "slider"):
        return False
    if node["names"]:
        return all(_place(each, node["names"]) is not None for each in value)
    return isinstance(value[0], int | float) and bool(node["low"] <= value[0] <= node["high"])


def _place(value: Any, names: Sequence[Any]) -> int | None:
    """The place in a control's list that is meant; None if it has none such."""
    return value if type(value) is int and 0 <= value < len(names) else None


def _drawn(draw: Callable[[], None], moves: Sequence[tuple[str, Any]], pressed: bool) -> list[Any]:
    """What `draw` sends to the page after these moves, in a thread of its own, to which Streamlit ties a session."""
    found: list[Any] = []
    failed: list[BaseException] = []

    def work() -> None:
        page = Offscreen(str(MAIN), draw)
        try:
            found[:] = page.draw()
            for batch in _batches(moves):
                there = {
                    _key(part.id): (kind, part) for kind, part in map(_control, found) if part is not None
                }
                found[:] = page.draw(
                    [
                        (kind, part.id, _reported(kind, part, value))
                        for key, value in batch
                        for kind, part in ([there[key]] if key in there else [])
                        if pressed or kind != "button"
                    ]
                )
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if failed:
        log.error("a lesson's picture could not be drawn for a room", exc_info=failed[0])
    return found


def _control(element: Any) -> tuple[str, Any]:
    """A control's kind and what describes it; None for anything else."""
    kind = element.WhichOneof("type")
    if kind not in (*CONTROLS, "bidi_component"):
        return "", None
    part = getattr(element, kind)
    return "choice" if kind == "slider" and part.options else kind, part


def _key(identity: str) -> str:
    """What a control is called in every language: the key that its picture gave it."""
    found = _NAMED.fullmatch(identity)
    return found[1] if found else identity


def _reported(kind: str, part: Any, value: Any) -> Any:
    """A move's value as a browser would report it: the names for their places."""
    if kind not in ("choice", "button_group", "selectbox"):
        return value
    names = [option.content for option in part.options] if kind == "button_group" else list(part.options)
    places = [_place(each, names) for each in (value if isinstance(value, list) else [value])]
    said = [names[place] for place in places if place is not None]
    return said if kind != "selectbox" else said[0] if said else None


def _batches(moves: Sequence[tuple[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Moves between two presses need one drawing: of a button, or on a node of the tree builder."""
    batches: list[list[tuple[str, Any]]] = []
    for move in moves:
        if _presses(move) or not batches or _presses(batches[-1][-1]):
            batches.append([])
        batches[-1].append(move)
    return batches


def _presses(move: tuple[str, Any]) -> bool:
    return move[1] is None or isinstance(move[1], dict)


def _node(element: Any, pressed: bool) -> Node | None:
    """One element as plain values; what is not shown in a room is left out."""
    kind = element.WhichOneof("type")
    return _NODES[kind](getattr(element, kind), pressed) if kind in _NODES else None


def _html(part: Any, _pressed: bool) -> Node:
    return {"kind": "html", "html": part.body}


def _text(part: Any, _pressed: bool) -> Node:
    return {"kind": "text", "html": html(part.body), "small": part.element_type == part.CAPTION}


def _chart(part: Any, _pressed: bool) -> Node:
    return {"kind": "chart", "figure": json.loads(part.spec), "alt": part.alt}


def _component(part: Any, _pressed: bool) -> Node | None:
    data = json.loads(part.json) if part.WhichOneof("data") == "json" else None
    name = part.component_name.rpartition(".")[2]
    module = {"specdec_player": "player", "specdec_tree_builder": "tree"}.get(name)
    if module is None or data is None:
        return None
    return {"kind": "component", "id": _key(part.id), "module": module, "css": _css(module), "data": data}


def _css(module: str) -> str:
    """The sheets of a component, which a Streamlit page has from its registration."""
    own = Path(pictures.__file__).with_name("tree_builder.css")
    sheets = [*sorted(SHEETS.glob("*.css")), IN_ROOM] if module == "player" else [own]
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def _slider(part: Any, _pressed: bool) -> Node:
    names = list(part.options)
    held = list(part.raw_value) if names else list(part.value)
    first = held if part.set_value else [names[int(part.default[0])] if names else part.default[0]]
    return {
        "kind": "slider",
        "id": _key(part.id),
        "label": inline(part.label),
        "value": names.index(first[0]) if names else first[0],
        "low": part.min,
        "high": part.max,
        "step": part.step,
        "names": names,
        "set": part.set_value,
    }


def _group(part: Any, _pressed: bool) -> Node:
    names = [option.content for option in part.options]
    return {
        "kind": "group",
        "id": _key(part.id),
        "label": inline(part.label),
        "names": [plain_label(name) for name in names],
        "value": [names.index(name) for name in part.raw_values] if part.set_value else list(part.default),
        "several": part.click_mode == part.MULTI_SELECT,
        "set": part.set_value,
    }


def _select(part: Any, _pressed: bool) -> Node:
    return {
        "kind": "select",
        "id": _key(part.id),
        "label": inline(part.label),
        "names": list(part.options),
        "value": list(part.options).index(part.raw_value) if part.set_value else part.default,
        "set": part.set_value,
    }


def _button(part: Any, pressed: bool) -> Node | None:
    if not pressed:
        return None
    return {"kind": "button", "id": _key(part.id), "label": inline(part.label), "off": bool(part.disabled)}


def plain_label(text: str) -> str:
    """A control's label without Streamlit's icons."""
    return re.sub(r":material/\w+:", "", text).strip()


CONTROLS = {"slider": _slider, "button_group": _group, "selectbox": _select, "button": _button}
_NODES: dict[str, Callable[[Any, bool], Node | None]] = {
    "html": _html,
    "markdown": _text,
    "plotly_chart": _chart,
    "bidi_component": _component,
    **CONTROLS,
}
