"""Every string the learner sees stands in the lessons' folder: in a language of brackets nothing is left in English."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from app.course.files import reading
from app.course.files.lesson import STEPS
from app.course.files.words import Words
from app.records import examples as recorded
from app.text import plain

from . import pseudo
from .course_page import _nodes, page, predict, press

SPOKEN = {"body", "label", "help", "placeholder", "options", "caption", "text", "content", "title", "message"}
BRACKETED = re.compile(rf"{pseudo.OPEN}[^{pseudo.OPEN}{pseudo.CLOSE}]*{pseudo.CLOSE}")
WORD = re.compile(r"[A-Za-z]{3,}")
NUMBER = re.compile(r"\d[.,]\d")
NO_WORDS = re.compile(
    r":[a-z_]+/[a-z_]+:|:(?:green|red|blue|gray|orange|violet)\[|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|https?://\S+"
)


class Text(HTMLParser):
    """What a page's HTML says: texts and labels, without code, styles, and what is marked as not to be translated."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.said += [
            given[name] or "" for name in ("aria-label", "title", "alt") if name in given and not self.silent
        ]
        if (
            tag in ("br", "img", "hr", "wbr", "input", "col", "path", "rect", "line", "circle")
            and not self.silent
        ):
            return
        if self.silent or tag in ("style", "pre", "code", "script") or given.get("translate") == "no":
            self.silent.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.silent and self.silent[-1] == tag:
            self.silent.pop()

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.said.append(data)


def said(at: AppTest) -> Iterator[str]:
    """Every text on the page that a person reads or hears."""
    for node in _nodes(at._tree):
        proto = getattr(node, "proto", None)
        if proto is None:
            continue
        name = type(proto).__name__
        if name == "Html":
            reader = Text()
            reader.feed(proto.body)
            yield from reader.said
        elif name == "PlotlyChart":
            yield from charted(json.loads(proto.spec))
        elif name != "Code":
            yield from fields(proto)


def fields(proto: Any) -> Iterator[str]:
    """The texts of an element by the names of their fields."""
    for field, value in proto.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from fields(inner)
        elif field.name in SPOKEN and field.type == field.TYPE_STRING:
            yield from list(value) if field.is_repeated else [value]


def charted(spec: Any, name: str = "") -> Iterator[str]:
    """The texts of a chart: titles, names, annotations, what is shown on hover."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key not in ("template", "customdata", "ids", "meta"):
                yield from charted(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from charted(value, name)
    elif isinstance(spec, str) and name in ("text", "name", "title", "hovertemplate", "ticktext"):
        yield re.sub(r"<[^>]*>|%\{[^}]*\}", " ", spec)


def names() -> set[str]:
    """What keeps its name in every language: recordings, machines, lanes, and the languages."""
    found = {Words("en", reading.FOLDER)(f"language.{key}") for key in ("name", "offer")}
    for example in recorded.examples():
        found |= {example.title, example.machine, example.look_for, *(lane.label for lane in example.lanes)}
    return found


def leaves(value: Any) -> Iterator[str]:
    """Every text in some YAML."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    elif isinstance(value, str) and WORD.search(value):
        yield value


def left(at: AppTest, *files: Path) -> list[str]:
    """The texts on the page that stand in no brackets, nor in these files as a key or in the front matter, and those
    with a number that is not written as the language of brackets writes it."""
    written: set[str] = set()
    for file in files:
        text = file.read_text(encoding="utf-8")
        front = yaml.safe_load(text.split("\n---")[0])
        written |= {*leaves(front), *re.findall(r"^- ([^\s:]+):", text, re.MULTILINE)}
    kept = sorted({each for one in names() | written for each in (one, plain(one))}, key=len, reverse=True)
    found = []
    for text in said(at):
        bare = NO_WORDS.sub(" ", text)
        for name in kept:
            bare = bare.replace(name, " ")
        english_number = NUMBER.search(bare)
        while BRACKETED.search(bare):
            bare = BRACKETED.sub(" ", bare)
        if english_number or WORD.search(bare):
            found.append(text[:120])
    return found


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course's folder with a language of brackets, `xx`; nothing writes to it."""
    folder = tmp_path_factory.mktemp("lessons")
    pseudo.translate(reading.FOLDER / "en", folder / "xx")
    (folder / "en").symlink_to(reading.FOLDER / "en")
    return folder


@pytest.fixture
def brackets(translated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The course in brackets, as the language `xx`."""
    monkeypatch.setattr(reading, "FOLDER", translated)


@pytest.mark.usefixtures("brackets")
@pytest.mark.parametrize("key", [key for _, key, _, _ in reading.titles("en")])
def test_a_lesson_speaks_the_language_asked_for(key: str) -> None:
    """Catches: a text that is written in Python, or taken from English; a number with a decimal point where the
    language has another sign."""
    lesson, problems = reading.read("xx", key)
    assert lesson is not None, problems
    file = next(path for path in reading.files("xx") if reading.name(path)[1] == key)
    at = page(lang="xx", lesson=key)
    assert left(at, file) == []
    predict(at, lesson)
    for step in STEPS[1:]:
        at.query_params["at"] = step
        at.run()
        assert not at.exception, at.exception
        assert left(at, file) == [], step


@pytest.mark.usefixtures("brackets")
@pytest.mark.parametrize("part", ["", "claims=1", "inventory=before", "sheet=1&order=race"])
def test_what_stands_beside_the_lessons_does_too(part: str) -> None:
    at = page(lang="xx", **dict(pair.split("=") for pair in part.split("&") if pair))
    folder = reading.FOLDER / "xx"
    assert left(at, *(folder / "claims").glob("*.md"), *folder.glob("*-race.md")) == []


@pytest.mark.usefixtures("brackets")
def test_english_left_over_is_noticed() -> None:
    """The proof that the tests above can fail: the same page in English is full of what they look for."""
    at = page(lang="en", lesson="race")
    assert len(left(at)) > 5
    press(at, "course-all")
    assert len(left(at)) > 10
