"""Writes the site: every page complete in itself, links relative, no request to anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.course.common_claims import claims, claims_view
from app.course.files import reading
from app.course.files.lesson import Lesson
from app.course.files.words import Words
from app.export.page import make
from app.live import page as live
from app.records import examples as recorded
from app.records.examples import Example
from specdec_core.record.trace import Trace

from . import pages, scorm
from .texts import LANGUAGES, TEXTS

WELCOME = "welcome"
ALONE = "specdec-live.html"  # the live page without the links to the others, to be handed around
SPACE = """---
title: Specdec Lab
short_description: See speculative decoding happen, live in your browser
colorFrom: blue
colorTo: yellow
sdk: static
app_file: index.html
license: apache-2.0
---
"""  # what Hugging Face reads of a static Space
NAVIGATION = (
    "body > nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding-block: 0.5rem; font-size: 0.9375rem; } "
    "body > nav a { display: inline-flex; align-items: center; min-block-size: 44px; color: var(--accent); }"
)


def write(folder: Path) -> list[str]:
    """Write all pages and the course's package into `folder`; returns their places in it.

    Raises:
        ValueError: one sentence, if an example, a lesson or a claim has a mistake.
        OSError: the folder cannot be written.
    """
    site = dict(every())
    for place, text in site.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    packages = []
    for TEXTS.language in LANGUAGES:
        packages.append(scorm.place())
        (folder / packages[-1]).write_bytes(scorm.package(site))
    TEXTS.language = LANGUAGES[0]
    return [*site, *packages]


def every() -> Iterator[tuple[str, str]]:
    """Every page: its place in the site, and its text."""
    found, problems = recorded.load()
    if problems:
        raise ValueError(problems[0])
    examples = {example.id: example for example in found}
    families = {recipe.id: recipe.family for recipe in recorded.recipes()[0]}
    welcome = examples[WELCOME]
    yield _own("index.html", pages.start(welcome, _traces(welcome)[-1]))
    yield ALONE, live.make()
    yield "README.md", SPACE
    yield _own("races.html", pages.races(found, families))
    for example in found:
        yield pages.race_place(example), _race(example)
    for TEXTS.language in LANGUAGES:
        yield from _course(examples)
    TEXTS.language = LANGUAGES[0]


def _course(examples: dict[str, Example]) -> Iterator[tuple[str, str]]:
    """The pages that are in the language of `TEXTS`."""
    place = f"{TEXTS.folder}live.html"
    yield place, live.make(pages.navigation(place), TEXTS.language)
    lessons = [_lesson(key) for _, key, _, _ in reading.titles(TEXTS.language)]
    course = pages.script("course")
    yield _own("course.html", pages.course(lessons), script=course)
    for made, following in zip(lessons, [*lessons[1:], None], strict=True):
        body = pages.lesson(made, following, examples)
        yield _own(f"lessons/{made.id}.html", body, made.front.title, course)
    yield _own("claims.html", _claims(examples))


def _own(place: str, body: str, title: str = "", script: str = "") -> tuple[str, str]:
    title = title or TEXTS["title" if place == "index.html" else pages.PLACES[place]]
    place = TEXTS.folder + place
    return place, pages.page(place, f"{title} · {TEXTS['name']}", body, script)


def _traces(example: Example) -> list[Trace]:
    return [Trace.from_json((recorded.FOLDER / f"{name}.json").read_bytes()) for name in example.files]


def _race(example: Example) -> str:
    """The page that plays an example, as the export makes it, with the way back to the others.

    An example's lanes are always raced; the first of them were recorded before a record said so.
    """
    cursor = {} if example.opens is None else {"round": example.opens}
    made = make(
        _traces(example),
        [lane.label for lane in example.lanes],
        title=example.title,
        cursor=cursor,
        raced=True,
    )
    head = f"<style>{NAVIGATION}</style>\n</head>\n<body>\n{pages.navigation(pages.race_place(example))}"
    return made.replace("</head>\n<body>", head, 1)


def _lesson(key: str) -> Lesson:
    made, problems = reading.read(TEXTS.language, key)
    if made is None:
        raise ValueError(str(problems[0]))
    return made


def _claims(examples: dict[str, Example]) -> str:
    words = Words(TEXTS.language, reading.FOLDER)
    found, problems = claims.every(TEXTS.language)
    if problems:
        raise ValueError(str(problems[0]))
    made = [
        (claim, claims_view.provenance(claim.front.chart, words) if claim.front.chart else "")
        for claim in found
    ]
    return pages.claims(made, examples, words)
