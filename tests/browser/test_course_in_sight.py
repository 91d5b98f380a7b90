"""In a presentation the question and the way on are in sight without scrolling: on a projector and on a laptop."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.course import reading
from app.course.lesson import STEPS
from app.course.words import Words

from .conftest import Server, until
from .test_axe import SLOW
from .test_course import LISTENING, at_step, box

SIZES = ((1024, 768), (1440, 900))
ROOM = 24  # pixels to spare, as another machine has other fonts
# What is asked, in pixels: its top, how far it ends above the bar, and how far the bar's first button ends above the
# window's end. A step without a question has the bar alone.
SEEN = """key => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.offsetParent).at(-1);
  const bar = shown(".st-key-course-bar")?.getBoundingClientRect();
  const asked = shown(`.st-key-course-${key}-prediction, .st-key-course-${key}-check`)?.getBoundingClientRect();
  const way = shown(".st-key-course-next button, .st-key-course-lock button")?.getBoundingClientRect();
  if (!bar || !way) return null;
  return { top: asked?.top ?? 0, room: asked ? bar.top - asked.bottom : 1e3, end: innerHeight - way.bottom };
}"""


def in_sight(page: Page, key: str, state: str) -> None:
    """Both sizes; the window is left at the first of them."""
    for width, height in (*SIZES[1:], SIZES[0]):
        page.set_viewport_size({"width": width, "height": height})
        found: dict[str, Any] = {}

        def fits(found: dict[str, Any] = found) -> bool:
            found.update(page.evaluate(SEEN, key) or {})
            return bool(found) and found["top"] >= 0 and found["room"] >= ROOM and found["end"] >= 0

        until(fits, 10, lambda size=(width, height), found=found: f"{state} at {size}: {found}")


def apart(page: Page, key: str) -> None:
    """Title, steps and the way out are above one another or side by side."""
    title, trail, leave = (box(page, each) for each in ("h1", ".trail", ".st-key-leave button"))
    written = page.locator("h1").evaluate(
        "one => { const range = document.createRange(); range.selectNodeContents(one);"
        "return range.getBoundingClientRect().toJSON(); }"
    )
    assert title["bottom"] <= trail["top"] and written["bottom"] <= trail["top"], key
    assert leave["bottom"] <= trail["top"] + 1 and leave["left"] >= written["right"], key


@pytest.mark.parametrize("language", ["en", "de"])
def test_question_and_way_on_are_in_sight(browser: Browser, server: Server, language: str) -> None:
    """Catches: an option or a button below the fold or behind the bar, a title printed over the steps."""
    words = Words(language, reading.FOLDER)
    page = browser.new_page(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    page.set_default_timeout(SLOW)
    for _, key, _, _ in reading.titles("en"):
        page.goto(f"{server.url}/course?lesson={key}&present=1&lang={language}")
        page.locator(f".st-key-course-{key}-prediction").wait_for()
        at_step(page, words("steps.predict"))
        in_sight(page, key, f"{key}, predict, {language}")
        apart(page, key)
        page.evaluate(LISTENING)
        page.keyboard.press("p")
        at_step(page, words("steps.watch"))
        for step in STEPS[2:-1]:
            in_sight(page, key, f"{key}, before {step}, {language}")
            page.keyboard.press("n")
            at_step(page, words(f"steps.{step}"))
        in_sight(page, key, f"{key}, check, {language}")
    page.close()
