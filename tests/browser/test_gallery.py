"""Every picture of the lessons and the claims on one page, as a class gets them: its width, what is cut off, and axe.

The page is made here of what `stills` sends; all else it asks for comes from the app.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from app.course.files import reading
from app.room import lesson_plan
from app.room.pages import stills
from app.web.room import CSS
from tests.app.gallery import shown

from .axe import check
from .conftest import Come, Server, Sight, until
from .test_axe import SLOW
from .test_course_in_sight import LOOKED_AT

SIZES = [(1440, 900), (1024, 768), (390, 844)]
STAGE = ".picture.picture { --stage: min(100dvh - 9rem, 44rem); }"  # as in the course
DRAW = """
import { draw } from "./assets/still.js";
for (const [name, nodes] of Object.entries(JSON.parse(document.getElementById("pictures").textContent)))
  draw(document.getElementById(name), nodes, () => {}, true);
"""
# The pictures that are not there yet: a chart without its plot, a component without content.
COMING = """() => [...document.querySelectorAll(".picture")].filter((one) => !one.children.length
  || [...one.querySelectorAll(".chart")].some((chart) => !chart.querySelector(".main-svg"))
  || [...one.children].some((part) => part.shadowRoot
    && !part.shadowRoot.querySelector(".builder .node, .player .controls"))).map((one) => one.id)"""
WIDE = """() => [document.documentElement, ...document.querySelectorAll(".picture, .chart")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.closest(".picture")?.id ?? "page")"""
# The names of axes that reach out of their charts, and the marks on bars that lie on another token's.
CUT = """() => [...document.querySelectorAll(".chart :is(.xtitle, .ytitle)"),
    ...document.querySelectorAll(".coin .toss b")].filter((one) => {
  const mine = one.getBoundingClientRect(), room = one.closest(".chart, td").getBoundingClientRect();
  return mine.left < room.left - 1 || mine.right > room.right + 1
    || mine.top < room.top - 1 || mine.bottom > room.bottom + 1;
}).map((one) => `${one.closest(".picture").id}: ${one.textContent}`)"""
# By step and lesson, before and after the prediction: a question is above or beside the one, and asks about the other.
HEIGHTS = """() => Object.fromEntries(["predict", "watch"].map((step) => [step, Object.fromEntries(
  [...document.querySelectorAll(`.picture[id$="-${step}"]`)]
    .map((one) => [one.id.slice(0, -step.length - 1), one.offsetHeight]))]))"""
PROJECTOR = (1024, 768)
MATRIX = "document.querySelector('.fails').scrollWidth <= document.querySelector('.fails').clientWidth"


def gallery(language: str) -> str:
    """The page."""
    pictures = {one.name: stills.drawn(one.picture, one.at) for one in shown(language)}
    data = {
        "words": lesson_plan.words(language),
        "language": language,
        "languages": list(reading.languages()),
    }
    held = {"data": data, "pictures": pictures}
    scripts = "".join(
        f'<script type="application/json" id="{key}">{json.dumps(each).replace("<", chr(92) + "u003c")}</script>'
        for key, each in held.items()
    )
    sections = "".join(f'<h2>{name}</h2><div class="picture" id="{name}"></div>' for name in pictures)
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>gallery</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<style>{CSS}</style><link rel="stylesheet" href="assets/room.css"><style>{STAGE}</style>{scripts}</head>'
        f'<body><main><h1>gallery</h1>{sections}</main><script type="module">{DRAW}</script></body></html>'
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", reading.languages())
def test_every_picture_fits_and_breaks_no_rule(
    come: Come, server: Server, complaints: Sight, language: str, theme: Any
) -> None:
    """Catches: a picture that draws nothing, that is wider than a phone or a projector, whose axis is named in part,
    or that breaks a rule of WCAG 2.2 AA, in either theme and any language; one that is taller than those of which
    test_course_in_sight.py asks whether the question below them is in sight."""
    page = come(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    page.set_default_timeout(SLOW)
    complaints.watch(page)
    body = gallery(language)

    def answer(route: Route) -> None:
        route.fulfill(body=body, content_type="text/html; charset=utf-8")

    page.route("**/r/gallery", answer)
    page.goto(f"{server.url}/r/gallery")
    until(lambda: page.evaluate(COMING) == [], SLOW / 1000, lambda: f"not drawn: {page.evaluate(COMING)}")
    check(page, f"gallery {language}, {theme}")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        settles(page, WIDE, f"{language}, wider than {width}")
        if width > 1000:  # on a phone the longest name of an axis is longer than the chart
            settles(page, CUT, f"{language}, cut off at {width}")
        if (width, height) == PROJECTOR:
            heights = page.evaluate(HEIGHTS)
            assert all(max(heights[step], key=heights[step].get) in LOOKED_AT for step in heights), heights
    assert page.evaluate(MATRIX), "on a phone, the last of the sizes, a column is cut off"


def settles(page: Page, looked_for: str, state: str) -> None:
    """Nothing of that is found; charts follow the window a moment later."""
    until(lambda: page.evaluate(looked_for) == [], 20, lambda: f"{state}: {page.evaluate(looked_for)}")
