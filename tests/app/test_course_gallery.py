"""Every picture × every step × every language that the lessons name, made by `scene` without a browser or a session."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.charts.chart import Chart
from app.course import pictures
from app.course.drawing.scene import Area, Button, Choice, Component, Html, Link, Markdown, Part
from app.course.files import reading
from app.course.files.lesson import STEPS

from . import english
from .gallery import Shown, shown

LANGUAGES = reading.languages()
NAMES = [each.name for each in shown("en")]


@cache
def gallery(language: str) -> dict[str, Shown]:
    return {each.name: each for each in shown(language)}


def seen(one: Shown, parts: list[Part]) -> bool:
    """Whether there is more than controls and styles; what is trained first has a button for that."""
    kinds = Button if one.picture.picture == "distilling" else Html | Chart | Component | Area
    return any(
        isinstance(part, kinds) and not (isinstance(part, Html) and part.html.startswith("<style"))
        for part in parts
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_something_to_see_and_speaks_its_language(language: str, name: str) -> None:
    """Catches: a picture without content, one that needs a session, a label that is missing or in another language."""
    one = gallery(language)[name]
    parts = one.parts()
    assert seen(one, parts)
    bodies = [part.html for part in parts if isinstance(part, Html)]
    assert all(len(body) > 40 for body in bodies)
    for part in parts:
        if isinstance(part, Chart):
            assert part.figure.data and part.title and part.alt
        if isinstance(part, Component):
            assert part.data["traces"] if part.module == "player" else part.data["nodes"]
        if isinstance(part, Choice):
            assert len(set(part.names)) == len(part.options) > 0 and part.of({}) in part.options
    labels = one.labels()
    assert all(labels)
    said = [*labels, *(part.title for part in parts if isinstance(part, Chart))]
    said += [part.label for part in parts if isinstance(part, Link)]
    said += [part.text for part in parts if isinstance(part, Markdown) and part.look in ("", "label")]
    if language == "en":
        foreign = {word for text in labels for word in english.words(text)} - english.vocabulary()
    else:
        foreign = {word for text in said for word in english.left(language, text)}
    assert foreign == set()


@pytest.mark.parametrize("name", NAMES)
def test_each_control_can_be_set_to_its_last_choice(name: str) -> None:
    """Catches: a choice that fails, or one after which a control has what it does not offer."""
    one = gallery(LANGUAGES[-1])[name]
    for control in [part for part in one.parts() if isinstance(part, Choice)]:
        after = one.parts({control.name: control.options[-1]})
        assert seen(one, after), control.name
        again = next(part for part in after if isinstance(part, Choice) and part.name == control.name)
        assert again.options == control.options


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_the_same_controls_in_every_language(name: str) -> None:
    """Catches: a control that one language alone has, so that a class of both is led past each other."""
    found = [
        [
            (part.name, len(part.options))
            for part in gallery(language)[name].parts()
            if isinstance(part, Choice)
        ]
        for language in LANGUAGES
    ]
    assert all(each == found[0] for each in found)


def named(front: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Each picture in a front matter with the step that names it."""
    if isinstance(front, dict):
        if isinstance(front.get("picture"), str):
            yield where[0] if where[0] in STEPS else "claim", front["picture"]
            return
        for key, inner in front.items():
            yield from named(inner, (*where, str(key)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_picture_or_step_of_a_lesson_is_left_out(language: str) -> None:
    """Catches: a step with a picture that the gallery does not reach: nothing here would look at it, and nor would the
    browser."""
    files: list[Path] = [*reading.files(language), *(reading.FOLDER / language / "claims").glob("*.md")]
    found = set()
    for path in files:
        front = yaml.safe_load(path.read_text(encoding="utf-8").split("\n---")[0])
        found |= {(path.stem.partition("-")[2], step, picture) for step, picture in named(front)}
    reached = {(one.at.id, one.at.step, one.picture.picture) for one in gallery(language).values()}
    assert found == reached
    assert len({key for key, step, _ in found if step != "claim"}) == len(reading.files(language)) > 20


def test_every_picture_is_shown_by_a_lesson_or_a_claim() -> None:
    """Catches: a module that nothing shows any more."""
    assert {one.picture.picture for one in gallery("en").values()} == set(pictures.names())
