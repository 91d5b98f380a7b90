"""From a lesson's file to a lesson, or to one sentence for each of its mistakes, with its line and how to fix it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import specdec_core
from app.course import pictures
from specdec_core.foundations.errors import sentence

from .lesson import MOST_WORDS, SECTIONS, STEPS, Code, Lesson, LessonFront, Picture, Problem, Section
from .source import Draft, Mistake, apart, compute, known, made_or_problems, section
from .words import FOLDER as FOLDER

CODE = ("specdec_core", "specdec_measure", "specdec_lessons")  # what a lesson may show the source of

# How long a lesson takes: its words at a careful reader's pace, and for each step what is done there besides reading.
WORDS_A_MINUTE = 200
STEP_MINUTES = 0.8

_FILE = re.compile(r"(\d\d[a-z]?)-([a-z0-9]+(?:-[a-z0-9]+)*)\.md")


def languages(folder: Path | None = None) -> tuple[str, ...]:
    """The existing languages: the folders, English first."""
    found = sorted(path.name for path in (folder or FOLDER).iterdir() if path.is_dir())
    return tuple(sorted(found, key=lambda name: name != "en"))


def files(language: str, folder: Path | None = None) -> list[Path]:
    """The lessons' files in order."""
    return sorted(path for path in ((folder or FOLDER) / language).glob("*.md") if _FILE.fullmatch(path.name))


def name(path: Path) -> tuple[str, str]:
    """A lesson's number and its id, from its file's name."""
    found = _FILE.fullmatch(path.name)
    assert found is not None
    return found[1].removeprefix("0"), found[2]


def titles(language: str, folder: Path | None = None) -> list[tuple[str, str, str, int]]:
    """Number, id, title and minutes of every lesson, even those with mistakes: what a list of lessons needs."""
    return [_title(path, path.stat().st_mtime_ns) for path in files(language, folder)]


def abouts(language: str, folder: Path | None = None) -> dict[str, str]:
    """What each lesson shows, in one line, by its id; lessons without one are left out."""
    fronts = {name(path)[1]: _raw(path, path.stat().st_mtime_ns)[0] for path in files(language, folder)}
    return {key: about for key, front in fronts.items() if isinstance(about := front.get("about"), str)}


def gallery(language: str, folder: Path | None = None) -> set[str]:
    """The ids of the lessons of which a learner chooses some."""
    return {
        name(path)[1]
        for path in files(language, folder)
        if _raw(path, path.stat().st_mtime_ns)[0].get("gallery") is True
    }


def misconceptions(language: str, folder: Path | None = None) -> dict[str, list[str]]:
    """The misconceptions that each lesson covers, by its id; without computing what the lessons say."""
    fronts = {name(path)[1]: _raw(path, path.stat().st_mtime_ns)[0] for path in files(language, folder)}
    return {key: list(front.get("misconceptions") or []) for key, front in fronts.items()}


def _title(path: Path, changed: int) -> tuple[str, str, str, int]:
    number, key = name(path)
    front, minutes = _raw(path, changed)
    title = front.get("title")
    shown = title if isinstance(title, str) and title else key
    return number, key, shown[:60], minutes


@lru_cache(maxsize=256)
def _raw(path: Path, _changed: int) -> tuple[dict[str, Any], int]:
    """The front matter unchecked, and the minutes that the lesson takes; empty and 0 if it cannot be read."""
    try:
        draft = apart(path, SECTIONS)
    except (Mistake, OSError):
        return {}, 0
    words = sum(len(line.split()) for lines in draft.sections.values() for _, line in lines)
    return draft.front, round(words / WORDS_A_MINUTE + len(STEPS) * STEP_MINUTES)


def read(language: str, key: str, folder: Path | None = None) -> tuple[Lesson | None, list[Problem]]:
    """The lesson with that id, or the mistakes in its file; both empty if there is no such lesson."""
    for path in files(language, folder):
        if name(path)[1] == key:
            return _read(path, path.stat().st_mtime_ns)
    return None, []


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int) -> tuple[Lesson | None, list[Problem]]:
    return made_or_problems(
        f"{path.parent.name}/{path.name}", path, SECTIONS, lambda draft: _lesson(path, draft)
    )


def _lesson(path: Path, draft: Draft) -> Lesson:
    """Check a file, compute its facts and fill them in.

    Raises:
        Mistake, pydantic.ValidationError: if it is invalid.
    """
    front = LessonFront.model_validate(draft.front)
    facts = known(front.given, front.facts, draft)
    for at in ("predict", "watch", "change", "explain"):
        _check_picture(front, at, draft)
    sections = {key: section(key, draft, facts) for key in draft.sections}
    first = sections["hook"].words() + sections["predict"].words(with_notes=False)
    if first > MOST_WORDS:
        raise Mistake(
            draft.sections["predict"][0][0] if draft.sections["predict"] else 1,
            f"Hook and prediction share one screen and have {first} words; {MOST_WORDS} are allowed, so shorten "
            "one.",
        )
    _check_code(front.code, sections["code"], draft)
    right = {
        "predict": _right("predict", front.predict.right, sections, facts, draft, front.predict.kind),
        "check": _right("check", front.check.right, sections, facts, draft, "choice"),
    }
    answer = _answer(front, facts, draft)
    strange = sorted(front.check.mistakes.keys() - (front.check.right.keys() - right["check"]))
    if strange:
        raise Mistake(
            draft.line("check", "mistakes", strange[0]),
            f"“{strange[0]}” is not a wrong option of the check; its wrong options are "
            f"{', '.join(sorted(front.check.right.keys() - right['check']))}.",
        )
    number, key = name(path)
    return Lesson(key, number, front, sections, facts, right, answer)


def _check_picture(front: LessonFront, at: str, draft: Draft) -> None:
    """Whether a step's picture exists and its parameters are valid."""
    part = getattr(front, at)
    path: tuple[str, ...] = (at,)
    if not isinstance(part, Picture):
        part, path = part.picture, (at, "picture")
    if part is None:
        return
    there = pictures.names()
    if part.picture not in there:
        raise Mistake(
            draft.line(*path, "picture"),
            f"There is no picture “{part.picture}”. Choose one of: {', '.join(there)}.",
        )
    try:
        pictures.check(part)
    except ValidationError as error:
        first = error.errors()[0]
        raise Mistake(draft.line(*path, "with", *first["loc"]), sentence(error)) from None
    except ValueError as error:
        raise Mistake(draft.line(*path, "with"), str(error)) from None


def _check_code(code: Code, text: Section, draft: Draft) -> None:
    """Whether the source exists and every light matches one line of it."""
    try:
        source = source_of(code.of)
    except (LookupError, OSError):
        raise Mistake(
            draft.line("code", "of"),
            f"There is no `{code.of}` in the core; name it as `module:Class.method`.",
        ) from None
    for key, piece in code.lights.items():
        hits = sum(piece in line for line in source.splitlines())
        if hits != 1:
            raise Mistake(
                draft.line("code", "lights", key),
                f"“{piece}” occurs in {hits} lines of `{code.of}`; take a piece that occurs in exactly one.",
            )
        if key not in text.items:
            raise Mistake(
                draft.line("code", "lights", key),
                f"The section “code” has no item `- {key}: …` for this line.",
            )


def _right(
    at: str,
    conditions: Mapping[str, str],
    sections: Mapping[str, Section],
    facts: Mapping[str, Any],
    draft: Draft,
    kind: str,
) -> frozenset[str]:
    """The right options."""
    if kind == "number":
        return frozenset()
    options = sections[at].items
    if conditions.keys() != options.keys():
        alone = sorted(conditions.keys() ^ options.keys())[0]
        raise Mistake(
            draft.line(at, "right"),
            f"“{alone}” is in only one of the two: every option of the section “{at}” needs its condition below "
            "`right`, and every condition its option.",
        )
    right = frozenset(
        key
        for key, condition in conditions.items()
        if compute(condition, facts, draft.line(at, "right", key))
    )
    if kind == "choice" and len(right) != 1:
        which = ", ".join(sorted(right)) or "none"
        raise Mistake(draft.line(at, "right"), f"Exactly one option has to be right; now it is: {which}.")
    return right


def _answer(front: LessonFront, facts: Mapping[str, Any], draft: Draft) -> float | None:
    """The right value of a prediction by number."""
    if front.predict.kind != "number":
        return None
    if front.predict.answer is None:
        raise Mistake(draft.line("predict"), "A predicted number needs its `answer`, an expression.")
    value = compute(front.predict.answer, facts, draft.line("predict", "answer"))
    if not isinstance(value, int | float) or not front.predict.low <= value <= front.predict.high:
        raise Mistake(
            draft.line("predict", "answer"),
            f"The answer is {value!r}; it has to be a number from `low` to `high`.",
        )
    return float(value)


@cache
def source_of(name_: str) -> str:
    """The source of a function or class as installed: `specdec_core.engine.decode:LaneDecoder.round`.

    The file is read and not imported: the engine brings torch, for which a lesson's first reader would wait. Nor is it
    parsed: Python 3.11 fails where two threads do so at once, and Streamlit parses every page.
    """
    module, _, path = name_.partition(":")
    root, *parts = module.split(".")
    if root not in CODE or not all(part.isidentifier() for part in parts):
        raise LookupError(name_)
    house = Path(specdec_core.__file__).parent.parent
    source = house.joinpath(root, *parts).with_suffix(".py").read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for depth, part in enumerate(path.split(".")):
        named = re.compile(rf"{'    ' * depth}(async )?(def|class) {re.escape(part)}\b")
        at = next((at for at, line in enumerate(lines) if named.match(line)), None)
        if at is None:
            raise LookupError(name_)
        block = inspect.getblock(lines[at:])
        while at and lines[at - 1].startswith("    " * depth + "@"):
            at -= 1
            block = [lines[at], *block]
        lines = block
    return inspect.cleandoc("\n" + "".join(lines).rstrip("\n"))
