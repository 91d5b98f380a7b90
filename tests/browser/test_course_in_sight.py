"""On a projector, the question and the way on are in sight without scrolling: every lesson, every step."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from app.course import reading
from app.course.lesson import STEPS
from app.course.words import Words

from .conftest import Server, until
from .test_axe import SLOW
from .test_course import LESSONS, LISTENING, at_step, box

LONGEST = ("weights", "trees", "fails")  # where German needs the most room
# Pixels left in the window below the question and the bar, and from its top to the question. The bar alone counts on
# a step that asks nothing.
ROOM = """key => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.offsetParent).at(-1);
  const bar = shown(".st-key-course-bar")?.getBoundingClientRect();
  const asked = shown(`.st-key-course-${key}-prediction, .st-key-course-${key}-check`)?.getBoundingClientRect();
  const way = shown(".st-key-course-next button, .st-key-course-lock button")?.getBoundingClientRect();
  if (!bar || !way || way.bottom > innerHeight) return -1;
  return Math.min(innerHeight - bar.height - (asked?.bottom ?? 0), asked?.top ?? innerHeight);
}"""
SPARE = 48  # pixels: on another machine the fonts are others, and a line may break that fits here


def in_sight(page: Page, key: str, step: str) -> None:
    until(
        lambda: page.evaluate(ROOM, key) >= SPARE,
        10,
        lambda: f"{key}, {step}: {page.evaluate(ROOM, key)} pixels to spare",
    )


def apart(page: Page, key: str) -> None:
    """Title, steps and the way out lie above one another or side by side."""
    title, trail, leave = (box(page, each) for each in ("h1", ".trail", ".st-key-leave button"))
    written = page.locator("h1").evaluate(
        "one => { const range = document.createRange(); range.selectNodeContents(one);"
        "return range.getBoundingClientRect().toJSON(); }"
    )
    assert title["bottom"] <= trail["top"] and written["bottom"] <= trail["top"], key
    assert leave["bottom"] <= trail["top"] + 1 and leave["left"] >= written["right"], key


def press(page: Page, key: str) -> None:
    page.evaluate(LISTENING)
    page.keyboard.press(key)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("language", "keys"), [("en", tuple(LESSONS)), ("de", LONGEST)])
def test_question_and_way_on_are_in_sight_on_a_projector(
    browser: Browser, server: Server, language: str, keys: tuple[str, ...]
) -> None:
    """From lesson to lesson by the button at the end, where the next is among them. Catches: an option or a button
    below the fold or behind the bar, a title printed over the steps."""
    words = Words(language, reading.FOLDER)
    page = browser.new_page(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    page.set_default_timeout(SLOW)
    for key, after in zip(keys, (*keys[1:], None), strict=True):
        if page.locator(f".st-key-course-{key}-prediction:visible").count() == 0:
            page.goto(f"{server.url}/course?lesson={key}&present=1&lang={language}")
        at_step(page, words("steps.predict"))
        in_sight(page, key, "predict")
        apart(page, key)
        press(page, "p")
        for step in STEPS[1:-1]:
            at_step(page, words(f"steps.{step}"))
            in_sight(page, key, step)
            if step != "check":
                press(page, "n")
        if after is not None and LESSONS.index(after) == LESSONS.index(key) + 1:
            page.locator(f".st-key-course-{key}-check label:visible").nth(1).click()
            page.locator(".st-key-course-answer button:enabled").click()
            page.locator(".st-key-course-onward button:visible").click()
            page.locator(f".st-key-course-{after}-prediction").wait_for()
    page.close()


# How many plots of the picture have two thirds of their area above the bar.
PLOTS = """() => {
  const end = [...document.querySelectorAll(".st-key-course-bar")].at(-1).getBoundingClientRect().top;
  return [...document.querySelectorAll(".st-key-course-picture-watch .nsewdrag")]
    .map((one) => one.getBoundingClientRect())
    .filter((one) => one.height && one.top + one.height * 2 / 3 <= end).length;
}"""


@pytest.mark.parametrize(("key", "asked"), [("weights", 1), ("overlap", 2)])
def test_the_plots_that_a_step_asks_about_are_in_sight_on_a_projector(
    browser: Browser, server: Server, key: str, asked: int
) -> None:
    """Catches: a table above the curve, or a legend between two charts, that pushes what is asked out of sight."""
    page = browser.new_page(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    page.set_default_timeout(SLOW)
    page.goto(f"{server.url}/course?lesson={key}&present=1")
    at_step(page, "Predict")
    press(page, "p")
    at_step(page, "Watch")
    until(
        lambda: page.evaluate(PLOTS) == asked,
        20,
        lambda: f"{key}: {page.evaluate(PLOTS)} of {asked} in sight",
    )
    page.close()
