"""The learner explains in their own words; the text is kept in the session and downloaded with the answers."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from app.course import progress
from app.course.drawing.scene import Area, Button, Columns, Download, Markdown, Part, Place, Values
from app.course.files.lesson import Strict

MAX_CHARS = 1_200  # characters


class With(Strict):
    """`lines`: the height of the field, in lines."""

    lines: int = Field(6, ge=3, le=12)


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The field and its download."""
    words, kept = at.words, progress.here()
    written = kept.notes.get(at.id, "")
    field = Area(
        "note", words("teach-back.label"), written, MAX_CHARS, 24 * given.lines, words("teach-back.placeholder"),
        words("teach-back.help"),
    )  # fmt: skip
    download = Download(
        "home", words("teach-back.download"), partial(progress.as_json, kept), "specdec-course.json",
        "application/json", off=not written,
    )  # fmt: skip
    said = words("teach-back.kept" if written else "teach-back.empty", count=len(written.split()))
    button = Button("keep", words("teach-back.keep"), icon="check")
    return [field, Columns([button, download, Markdown(said, "small")], gap="small", align="center")]


def acted(name: str, act: object, given: With, values: Values, at: Place) -> Values:
    """Keep the text."""
    if name == "note":
        keep(at.id, str(act or ""))
    return {}


def keep(lesson: str, text: str) -> None:
    """Keep the text: plain, truncated to the allowed length; deleted if emptied."""
    written = "".join(sign for sign in text if sign in "\n\t" or sign.isprintable()).strip()[:MAX_CHARS]
    if written:
        progress.here().notes[lesson] = written
    else:
        progress.here().notes.pop(lesson, None)
