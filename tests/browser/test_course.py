"""Lessons of each kind in Chromium, by keyboard alone, with axe-core looking at every screen.

Every picture of the others, its width and what axe says of it, is in test_gallery.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page

from app.course.files import reading
from app.course.files.lesson import STEPS, Lesson
from app.course.files.words import Words

from .axe import check
from .conftest import STILL, Server, Visitors, expect, until
from .test_axe import SLOW, turned

MOST_TABS = 150
LESSONS = [key for _, key, _, _ in reading.titles("en")]
SIZES = [(1024, 768), (390, 844)]
DESK: Any = {"width": 1440, "height": 900}
WIDTH = "document.querySelector('[data-testid=stMain]').scrollWidth"


@pytest.fixture(scope="module")
def page(visitors: Visitors) -> Iterator[Page]:
    """One tab for all lessons, as a learner has it; axe would measure colours on their way, so nothing moves."""
    with visitors.visits() as come:
        opened = come(viewport=DESK)
        opened.set_default_timeout(SLOW)
        yield opened


def reach(page: Page, selector: str) -> None:
    """Press Tab until what is focused is, or lies in, `selector`."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => Boolean(document.activeElement?.closest(selector))", selector):
            return
    raise AssertionError(f"{selector} cannot be reached with Tab")


# For `wait_for_function`, in the page: elsewhere Playwright looks only twice a second at what takes longer than a
# quarter of one, as most steps do, and a look from here takes four processes.
LOOK_MS: Any = 20
RESTED = f"""(step) => document.querySelector("{STILL}") !== null && (step === null ||
  [...document.querySelectorAll(".trail [aria-current=step]")]
    .some((one) => one.checkVisibility() && one.textContent.trim() === step))"""


def rested(page: Page, step: str | None = None) -> None:
    """Wait until no script of the page runs, and the lesson is at that step."""
    page.wait_for_function(RESTED, arg=step, polling=LOOK_MS, timeout=SLOW)
    assert page.locator("[data-testid=stException]").count() == 0


def at_step(page: Page, name: str) -> None:
    rested(page, name)


# A button listens for its key only once React has run its effects, a moment after it is there to be seen.
LISTENING = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def further(page: Page, name: str) -> None:
    """The next step, by its key."""
    page.locator(".st-key-course-next button:visible").wait_for()
    page.evaluate("document.activeElement?.blur()")
    page.evaluate(LISTENING)
    page.keyboard.press("n")
    at_step(page, name)


class Walk(NamedTuple):
    """A lesson in a language and a theme, opened on one of the small screens."""

    key: str
    language: str
    theme: Any
    small: tuple[int, int]

    @property
    def lesson(self) -> Lesson:
        found, problems = reading.read(self.language, self.key)
        assert found is not None, problems
        return found


# One of each kind of prediction in each language, and on each small screen.
WALKS = [
    Walk("first-word", "en", "light", SIZES[0]),
    Walk("fails", "de", "dark", SIZES[1]),
    Walk("coin", "en", "dark", SIZES[1]),
    Walk("rules", "de", "light", SIZES[0]),
    Walk("trees", "en", "light", SIZES[1]),
    Walk("length", "de", "dark", SIZES[0]),
]


def begin(page: Page, url: str, walk: Walk, step: str) -> None:
    """A lesson in a fresh session of a visitor who was never here, by its address."""
    page.context.clear_cookies()
    page.goto(f"{url}/course?lesson={walk.key}&lang={walk.language}")
    page.locator(f".st-key-course-{walk.key}-prediction").wait_for()
    at_step(page, step)


def predict(page: Page, lesson: Lesson, after: str) -> None:
    """Predict something, with the keyboard; that leads to the next step."""
    field = f".st-key-course-{lesson.id}-prediction"
    reach(page, field)
    kind = lesson.front.predict.kind
    if kind == "number":
        page.keyboard.type(f"{lesson.front.predict.low:g}")
    page.keyboard.press({"choice": "Space", "several": "Enter", "number": "Enter"}[kind])
    page.locator(".st-key-course-lock button:enabled").first.wait_for(state="attached")  # one of two is shown
    rested(page)
    reach(page, ".st-key-course-lock")
    page.keyboard.press("Enter")
    at_step(page, after)


def in_sight(page: Page, selector: str, state: str) -> None:
    """Whether all of it can be seen without scrolling."""
    found = page.locator(f"{selector}:visible").first
    until(
        lambda: found.evaluate(
            "one => { const box = one.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }"
        ),
        20,
        lambda: f"{state}: {selector} is out of sight",
    )


def fits(page: Page, width: int, state: str) -> None:
    """Nothing is wider than the window; charts follow it a moment later."""
    until(lambda: bool(page.evaluate(WIDTH) <= width), 20, lambda: f"{state}: wider than {width}")


def holds_its_width(page: Page, state: str) -> None:
    """A projector and then a phone scroll in one direction only."""
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        fits(page, width, state)
    matrix = page.locator(".fails:visible")  # on a phone, the last of the sizes
    if matrix.count():
        assert matrix.evaluate("one => one.scrollWidth <= one.clientWidth"), f"{state}: a column is cut off"
    page.set_viewport_size(DESK)


@pytest.mark.parametrize("walk", WALKS, ids=[f"{walk.key}-{walk.language}" for walk in WALKS])
def test_a_lesson_by_keyboard_with_axe_on_every_screen(page: Page, server: Server, walk: Walk) -> None:
    """Catches: a screen that needs a mouse, breaks a rule of WCAG 2.2 AA, or shows an error; a picture that is wider
    than a phone, or than a projector, whether drawn there or on the way to it; a prediction that cannot be made there;
    a next lesson that is not begun at its top."""
    key, lesson, words = walk.key, walk.lesson, Words(walk.language, reading.FOLDER)
    predicting, watching, *later = (words(f"steps.{step}") for step in STEPS)
    width, height = walk.small
    page.emulate_media(color_scheme=walk.theme)
    page.set_viewport_size({"width": width, "height": height})
    begin(page, server.url, walk, predicting)
    fits(page, width, f"{key} predict")
    page.set_viewport_size(DESK)
    in_sight(page, ".st-key-course-lock button", f"{key} predict")
    in_sight(page, f".st-key-course-{key}-prediction", f"{key} question")
    check(page, f"{key} predict, {walk.theme}")
    page.set_viewport_size({"width": width, "height": height})
    predict(page, lesson, watching)
    fits(page, width, f"{key} watch, drawn there")
    page.set_viewport_size(DESK)
    in_sight(page, ".st-key-course-next button", f"{key} watch")
    holds_its_width(page, f"{key} watch")
    check(page, f"{key} watch, {walk.theme}")
    for name, label in zip(STEPS[2:], later, strict=True):
        if name == "change":
            page.set_viewport_size({"width": width, "height": height})
        further(page, label)
        if name == "change":
            fits(page, width, f"{key} change, drawn there")
            page.set_viewport_size(DESK)
        in_sight(page, ".st-key-course-bar button", f"{key} {name}")
        if name == "check":
            answer(page, key)
        check(page, f"{key} {name}, {walk.theme}")
        if name == "change":
            holds_its_width(page, f"{key} change")
    page.evaluate(LISTENING)
    page.keyboard.press("b")
    at_step(page, later[STEPS.index("check") - 2])
    further(page, later[-1])
    reach(page, ".st-key-course-onward")
    page.keyboard.press("Enter")
    page.locator(f".st-key-course-{LESSONS[LESSONS.index(key) + 1]}-prediction").wait_for()
    at_step(page, predicting)
    expect(page.locator("[data-testid=stMain]")).to_be_focused()


def answer(page: Page, key: str) -> None:
    """Answer the question at the end, with the keyboard."""
    in_sight(page, f".st-key-course-{key}-check", f"{key} check")
    reach(page, f".st-key-course-{key}-check")
    page.keyboard.press("Space")
    page.locator(".st-key-course-answer button:enabled").wait_for()
    reach(page, ".st-key-course-answer")
    page.keyboard.press("Enter")
    page.locator("[data-testid=stAlert]").first.wait_for()
    rested(page)


def test_each_way_to_predict_is_walked_in_each_language_on_both_small_screens() -> None:
    """Catches: a lesson whose kind has changed, so that a width or a language is loaded with no lesson of a kind."""
    walked = {(walk.lesson.front.predict.kind, walk.language, walk.small) for walk in WALKS}
    kinds = ("choice", "several", "number")
    assert {(kind, language) for kind, language, _ in walked} == {
        (kind, language) for kind in kinds for language in reading.languages()
    }
    assert {(kind, size) for kind, _, size in walked} == {(kind, size) for kind in kinds for size in SIZES}
    assert {(walk.theme, walk.small) for walk in WALKS} == {
        (theme, size) for theme in ("light", "dark") for size in SIZES
    }


@pytest.mark.parametrize(
    "part", ["", "?claims=1", "?inventory=before", "?inventory=after", "?sheet=1&order=coin"]
)
def test_what_stands_beside_the_lessons(page: Page, server: Server, part: str) -> None:
    """Opened in the light, then in the dark as it stands."""
    page.emulate_media(color_scheme="light")
    page.goto(f"{server.url}/course{part}")
    page.locator("h1").wait_for()
    rested(page)
    check(page, f"course{part}, light")
    turned(page, "dark")
    check(page, f"course{part}, dark")


def test_a_presentation_is_led_with_four_keys(page: Page, server: Server) -> None:
    """N and B, from lesson to lesson too, P for a class that predicted aloud, Escape to leave. A reload loses
    nothing."""
    page.context.clear_cookies()
    page.goto(f"{server.url}/course?lesson=coin&present=1&hide=code")
    at_step(page, "Predict")
    expect(page.locator("[data-testid=stSidebar]")).to_be_hidden()
    page.locator(".st-key-course-reveal button:visible").wait_for()
    page.evaluate(LISTENING)
    page.keyboard.press("p")
    at_step(page, "Watch")
    check(page, "presentation")
    for name in ("Change", "Explain", "Check"):
        further(page, name)
    page.locator(".st-key-course-to-change button").click()
    at_step(page, "Change")
    for name in ("Explain", "Check"):
        further(page, name)
    page.evaluate(LISTENING)
    page.keyboard.press("b")
    at_step(page, "Explain")
    for name in ("Check", "Try it in the lab"):
        further(page, name)
    page.evaluate(LISTENING)
    page.keyboard.press("n")  # the question is not answered: the class answered aloud
    at_step(page, "Predict")
    page.evaluate(LISTENING)
    page.keyboard.press("b")
    at_step(page, "Try it in the lab")
    page.locator(".st-key-course-to-explain button").click()
    at_step(page, "Explain")
    page.reload()
    at_step(page, "Explain")
    page.evaluate(LISTENING)

    def left() -> bool:  # a press while the reloaded page is still drawn is lost, and does no harm twice
        page.keyboard.press("Escape")
        page.wait_for_timeout(500)
        return "present" not in page.url

    until(left, SLOW / 1000, lambda: f"Escape does not leave {page.url}")
    page.locator("[data-testid=stHeader]").wait_for()


# On a sheet of paper: by how much what is written runs over the sheet, or what is drawn over its figure.
CUT = """() => [...document.querySelectorAll("[class*=st-key-sheet-]")].flatMap((sheet) => [sheet,
  ...[...sheet.children].filter((one) => one.querySelector("[class*=st-key-figure-]"))])
  .filter((one) => one.scrollHeight > one.clientHeight + 16).map((one) => one.textContent.slice(0, 40))"""
SHEETS = {"en": ["coin", "trees", "overlap"], "de": [key for _, key, _, _ in reading.titles("de")]}


@pytest.mark.parametrize("language", SHEETS)
def test_the_sheets_print_a_page_for_each_lesson(page: Page, server: Server, language: str) -> None:
    """In German, whose texts are longer, all of them. Catches: a sheet that runs over, is cut off by a scrolling frame
    or by the edge of the paper, or prints its answers unasked."""
    lessons = SHEETS[language]
    page.goto(f"{server.url}/course?sheet=1&lang={language}&order={','.join(lessons)}")
    page.locator(f".st-key-sheet-{lessons[-1]}").wait_for(
        timeout=120_000
    )  # every lesson's pictures are drawn
    rested(page)
    assert page.locator("[class*=st-key-key-]").count() == 0
    written = page.locator(".st-key-sheets").inner_text()
    assert not [note for key in lessons for note in notes(language, key) if note in written]
    for key in (False, True):
        if key:
            page.locator(".st-key-sheet-with-key label").click()
            page.locator(f".st-key-key-{lessons[-1]}").wait_for(timeout=120_000)
            rested(page)
        page.set_viewport_size({"width": 703, "height": 1032})  # A4 within its margins
        page.emulate_media(media="print")
        assert page.evaluate(CUT) == [], key
        page.emulate_media(media="null")
        page.set_viewport_size(DESK)
        printed = page.pdf(format="A4")
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == len(lessons), key
    written = page.locator(".st-key-sheets").inner_text()
    assert not [key for key in lessons if not any(note in written for note in notes(language, key))]


def notes(language: str, key: str) -> list[str]:
    """The longest piece without a number of everything that a lesson says only after an answer."""
    (path,) = (path for path in reading.files(language) if reading.name(path)[1] == key)
    lines = [line[4:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("  > ")]
    pieces = [max(re.split(r"[{}$*`]", line), key=len).strip() for line in lines]
    return [piece for piece in pieces if len(piece) > 20]


def shown(page: Page, url: str, key: str, *size: int) -> None:
    """The second step of a lesson, without a prediction, in a window of that size."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.context.clear_cookies()
    page.goto(f"{url}/course?lesson={key}&present=1")
    page.locator(".st-key-course-reveal button:visible").wait_for()
    at_step(page, "Predict")
    page.evaluate(LISTENING)
    page.keyboard.press("p")
    at_step(page, "Watch")
    page.evaluate(LISTENING)
    page.keyboard.press("Escape")
    page.locator("[data-testid=stHeader]").wait_for()
    rested(page)


def box(page: Page, selector: str) -> dict[str, float]:
    """Where the first of these stands."""
    found: dict[str, float] = page.locator(selector).first.evaluate(
        "one => one.getBoundingClientRect().toJSON()"
    )
    return found


SCROLLED = "document.querySelector('[data-testid=stMain]').scrollTop"


def test_a_player_that_is_stepped_through_is_in_sight_with_its_controls(page: Page, server: Server) -> None:
    """Catches: a player higher than what page head and bar leave of the window; an arrow across the words it copies."""
    shown(page, server.url, "lookup", 1440, 900)
    page.locator(".st-key-course-to-explain button").click()
    at_step(page, "Explain")
    page.locator(".player .controls").wait_for()
    page.evaluate(LISTENING)
    page.keyboard.press("ArrowRight")
    until(
        lambda: box(page, ".player .controls")["bottom"] <= box(page, ".st-key-course-bar")["top"],
        SLOW / 1000,
        lambda: f"the controls end at {box(page, '.player .controls')['bottom']}",
    )
    assert box(page, ".player .score")["top"] >= box(page, "[data-testid=stHeader]")["bottom"]
    arrow = page.locator(".player .lookup-text .arrow")
    assert arrow.evaluate("one => getComputedStyle(one).zIndex") == "-1"


def test_columns_out_of_sight_are_hinted_at_and_headings_stand_apart(page: Page, server: Server) -> None:
    """Catches: a table cut off at the right without a sign of more, two headings of a table that touch."""
    mask = "one => getComputedStyle(one).maskImage"
    try:
        shown(page, server.url, "fails", 1024, 768)
        page.locator(".st-key-course-to-change button").click()
        at_step(page, "Change")
        table = page.locator(".fails")
        table.wait_for()
        assert table.evaluate("one => one.scrollWidth > one.clientWidth")
        assert table.evaluate(mask) != "none"
        table.evaluate("one => one.scrollTo(one.scrollWidth, 0)")
        until(lambda: table.evaluate(mask) == "none", SLOW / 1000, lambda: "the last column is still faded")
        shown(page, server.url, "lossless", 1440, 900)
        page.get_by_text("10,000", exact=True).click()
        heads = page.locator(".same-texts .counts thead th").filter(visible=True)
        heads.first.wait_for()
        over = heads.evaluate_all("all => all.map((one) => one.scrollWidth - one.clientWidth)")
        assert max(over) <= 0
    finally:
        page.set_viewport_size(DESK)


def test_a_phone_shows_each_step_from_its_top_and_all_of_it(page: Page, server: Server) -> None:
    """Catches: Next that leads past the text of the next step, a page that jumps at every rerun; a coin that lies on
    another token's bar, a formula or a line of code cut off at the right."""
    try:
        shown(page, server.url, "coin", 390, 844)
        badge = box(page, ".coin .toss b")
        own = page.locator(".coin .toss").evaluate(
            "one => one.closest('td').getBoundingClientRect().toJSON()"
        )
        assert own["left"] <= badge["left"] and badge["right"] <= own["right"]
        for name in ("Change", "Explain", "Code"):
            page.locator(".st-key-course-next button:visible").click()
            at_step(page, name)
            assert page.evaluate(SCROLLED) == 0, name
            assert page.evaluate("document.activeElement.dataset.testid") == "stMain", name
            if name == "Explain":
                frame = box(page, ".st-key-course-formula")
                bases = page.locator(".katex-html .base").evaluate_all(
                    "all => all.map((one) => one.getBoundingClientRect().right)"
                )
                assert max(bases) <= frame["right"] - 8
        assert box(page, ".source mark")["right"] <= box(page, ".source pre")["right"]
        page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 200")
        page.locator(".st-key-course-coin-light button:visible").nth(1).click()
        rested(page)
        assert page.evaluate(SCROLLED) > 0
        page.goto(f"{server.url}/course")
        page.locator(".st-key-beside-claims-1 button:visible").click()
        expect(page.locator("h1")).to_have_text("Claims heard in the field")
        rested(page)
        assert page.evaluate(SCROLLED) == 0
    finally:
        page.set_viewport_size(DESK)
