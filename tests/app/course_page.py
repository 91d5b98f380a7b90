"""The course's page in process, and everything it sends to the browser."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from app.course import progress
from app.course.files.words import FOLDER, Words

PAGE = Path(__file__).resolve().parents[2] / "app" / "app_pages" / "course.py"


def page(kept: progress.CourseProgress | None = None, **params: str) -> AppTest:
    """The page after its first run; `kept` is what this session's learner did before."""
    at = AppTest.from_file(PAGE, default_timeout=60)
    if kept is not None:
        at.session_state[progress.STORE] = deepcopy(kept)
    for key, value in params.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception, at.exception
    return at


def press(at: AppTest, key: str) -> AppTest:
    """Press a button."""
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def misconception(name: str) -> str:
    """How the English course's sentence about that misconception begins."""
    words = Words("en", FOLDER)
    return words("steps.misconception", text=words(f"misconceptions.{name}"))[:60]


def sent(at: AppTest) -> str:
    """Everything sent to the browser, including labels, helps, options and component data."""
    found = (str(node.proto) for node in _nodes(at._tree) if getattr(node, "proto", None) is not None)
    return "\n".join(found).replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")


def _nodes(block: Any) -> Iterator[Any]:
    yield block
    for child in getattr(block, "children", {}).values():
        yield from _nodes(child)


def predict(at: AppTest, lesson: Any, option: str | None = None) -> AppTest:
    """Make a prediction, by default the first option, and lock it in."""
    kind, items = lesson.front.predict.kind, list(lesson.sections["predict"].items)
    key = f"course-{lesson.id}-prediction"
    if kind == "number":
        at.number_input(key=key).set_value(lesson.front.predict.low).run()
    elif kind == "several":
        at.button_group(key=key).set_value([option or items[0]]).run()
    else:
        at.radio(key=key).set_value(option or items[0]).run()
    return press(at, "course-lock")
