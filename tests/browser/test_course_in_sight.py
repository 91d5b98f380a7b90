"""On a projector, the question and the way on are in sight without scrolling: at every step of the lessons with the
tallest pictures, as test_gallery.py measures them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from app.course.files import reading
from app.course.files.lesson import STEPS
from app.course.files.words import Words

from .conftest import Come, Server, until
from .test_axe import SLOW
from .test_course import LESSONS, LISTENING, at_step, box

STEPS_OF = {"en": STEPS[1:-1], "de": ("watch", "check")}  # the others ask nothing, and have the same bar
PLOT = ".st-key-course-picture-watch .nsewdrag"
# The lessons, and what the text of their step “watch” asks about: how many of them there are.
LOOKED_AT = {
    "coin": (".coin .plot", 3),
    "lossless": (".same-texts .texts", 1),
    "early-exit": (PLOT, 2),
    "trees": (".player .mask-box", 1),
    "rules": (".dial .tug", 1),
}
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


def test_a_race_s_choices_and_its_start_are_apart(server: Server, come: Come) -> None:
    """Catches: “Run the race again” that touches the choice of a text."""
    page = come(viewport={"width": 1024, "height": 768})
    page.goto(f"{server.url}/course?lesson=race&at=watch&present=1")
    chosen, again = page.locator("[data-testid=stButtonGroup]").last, page.locator("[class*=-again] button")
    again.wait_for()
    one, other = chosen.bounding_box(), again.bounding_box()
    assert one and other
    assert other["x"] - one["x"] - one["width"] >= 8 or other["y"] - one["y"] - one["height"] >= 8


def press(page: Page, key: str) -> None:
    page.evaluate(LISTENING)
    page.keyboard.press(key)


# How many of these are shown in whole above the bar; of a plot two thirds are enough.
SHOWN = """([all, share]) => {
  const end = [...document.querySelectorAll(".st-key-course-bar")].at(-1).getBoundingClientRect().top;
  return all.map((one) => one.getBoundingClientRect())
    .filter((one) => one.height && one.top >= 0 && one.top + one.height * share <= end).length;
}"""


def looked_at(page: Page, key: str) -> None:
    """What the text asks about is in sight together with the text, which is at the top."""
    selector, wanted = LOOKED_AT[key]
    share = 2 / 3 if selector == PLOT else 1

    def shown() -> int:
        found = page.locator(selector).element_handles()
        return int(page.evaluate(SHOWN, [found, share]))

    until(lambda: shown() == wanted, SLOW / 1000, lambda: f"{key}: {shown()} of {wanted} {selector} in sight")


def ten_thousand_runs(page: Page, words: Words) -> None:
    """The second thing that lesson 5 asks to look at; a table below the fold would not be seen."""
    page.get_by_text(words.whole(10_000), exact=True).click()
    table = page.locator(".same-texts .counts")
    table.wait_for()
    until(
        lambda: page.evaluate(SHOWN, [table.element_handles(), 1]) == 1,
        20,
        lambda: "the table of counts is not in sight",
    )


@pytest.mark.parametrize("language", STEPS_OF)
def test_question_and_way_on_are_in_sight_on_a_projector(come: Come, server: Server, language: str) -> None:
    """And on to the next lesson by the button at the end. Catches: an option or a button
    below the fold or behind the bar, a title printed over the steps, a text about what can only be scrolled to."""
    words = Words(language, reading.FOLDER)
    page = come(viewport={"width": 1024, "height": 768})
    page.set_default_timeout(SLOW)
    for key in LOOKED_AT:
        page.goto(f"{server.url}/course?lesson={key}&present=1&lang={language}")
        at_step(page, words("steps.predict"))
        in_sight(page, key, "predict")
        apart(page, key)
        press(page, "p")
        for step in STEPS_OF[language]:
            if step != "watch":
                page.locator(f".st-key-course-to-{step} button:visible").click()
            at_step(page, words(f"steps.{step}"))
            in_sight(page, key, step)
            if step == "watch":
                looked_at(page, key)
                if key == "lossless":
                    ten_thousand_runs(page, words)
        page.locator(f".st-key-course-{key}-check label:visible").nth(1).click()
        page.locator(".st-key-course-answer button:enabled").click()
        page.locator(".st-key-course-onward button:visible").click()
        page.locator(f".st-key-course-{LESSONS[LESSONS.index(key) + 1]}-prediction").wait_for()


CUT = """() => [...document.querySelectorAll(".js-plotly-plot :is(.xtitle, .ytitle)")]
    .filter((title) => title.getClientRects().length).filter((title) => {
        const mine = title.getBoundingClientRect(), chart = title.closest(".js-plotly-plot").getBoundingClientRect();
        return mine.top < chart.top - 1 || mine.bottom > chart.bottom + 1 || mine.right > chart.right + 1;
    }).map((title) => title.textContent)"""


@pytest.mark.parametrize("language", reading.languages())
def test_a_chart_s_axes_are_named_whole_on_a_projector(come: Come, server: Server, language: str) -> None:
    """Catches: the name of an axis that is longer than the axis, so that a presentation cuts it at both ends."""
    page = come(viewport={"width": 1024, "height": 768})
    page.set_default_timeout(SLOW)
    for key, step in (("weights", "watch"), ("fails", "explain"), ("rules", "change"), ("sandbox", "change")):
        page.goto(f"{server.url}/course?lesson={key}&present=1&at={step}&lang={language}")
        page.locator(".js-plotly-plot .ytitle:visible").first.wait_for()
        until(lambda: page.evaluate(CUT) == [], 20, lambda: f"{page.url}: {page.evaluate(CUT)}")
