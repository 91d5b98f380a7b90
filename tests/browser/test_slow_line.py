"""A class on a poor line: presses that follow each other faster than the server's answers come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from .conftest import RUN, STILL, Server, Sight, Visitors, expect, until
from .slow_line import Line, slow_line

ANSWERED_MS = 1_500  # after the first of an answer the server has done with a press
QUIET_S = 1.5  # after so long without a word the server has said all
LONG = 60_000
Open = Callable[[str], tuple[Page, Line]]


@pytest.fixture(scope="module")
def line(server: Server) -> Iterator[Line]:
    with slow_line(urlsplit(server.url).port or 0) as found:
        yield found


@pytest.fixture
def far(server: Server, line: Line, visitors: Visitors, complaints: Sight) -> Iterator[Open]:
    """Open a page of the app by the line, which becomes slow on request."""
    line.let_go()
    with visitors.visits() as come:

        def open_one(address: str) -> tuple[Page, Line]:
            page = come()
            complaints.watch(page)
            page.set_default_timeout(LONG)
            page.goto(f"http://127.0.0.1:{line.port}{address}")
            page.locator(STILL).wait_for(state="attached")
            return page, line

        yield open_one
    until(lambda: server.busy() == 0, 10)


def answered(page: Page, line: Line) -> None:
    """Wait until the server has done with a press, its answer still on the way."""
    until(lambda: line.holds, LONG / 1000)
    page.wait_for_timeout(ANSWERED_MS)


def quiet(page: Page, line: Line) -> None:
    """Wait until all has arrived."""
    while line.quiet_s() < QUIET_S:
        page.wait_for_timeout(100)
    page.locator(STILL).wait_for(state="attached")


def test_two_runs_ticked_after_one_another_are_both_chosen(far: Open) -> None:
    page, line = far("/library")
    boxes = page.locator("[class*=st-key-pick-recorded-] label")
    boxes.nth(1).wait_for()
    line.slow = True
    boxes.nth(0).click()
    answered(page, line)
    boxes.nth(1).click()
    line.let_go()
    expect(page.get_by_role("button", name="Compare 2 runs")).to_be_visible(timeout=LONG)


def test_a_setting_changed_right_after_run_hides_nothing_of_the_run(far: Open) -> None:
    page, line = far("/?tokens=24")
    page.get_by_role("button", name=RUN).wait_for()
    settings = page.get_by_role("button", name="Settings")
    settings.click()
    slider = page.locator("[data-testid=stSlider]").first.get_by_role("slider")
    slider.wait_for()  # its script comes by the same line, after the button's
    page.keyboard.press("Escape")
    line.slow = True
    page.get_by_role("button", name=RUN).click()
    answered(page, line)
    settings.click()
    slider.press("ArrowRight")
    line.let_go()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=LONG)
    quiet(page, line)
    expect(page.get_by_text("Target passes saved")).to_be_visible()
    assert "run=" in page.url


def test_words_of_one_s_own_stay_when_run_is_pressed_before_they_were_answered(far: Open) -> None:
    """Catches: the example that the browser still had marked, in place of what was typed."""
    page, line = far("/?tokens=8")
    page.get_by_role("button", name=RUN).wait_for()
    box = page.get_by_role("textbox", name="Prompt")
    box.fill("A cow and a moon")
    line.slow = True
    box.blur()
    answered(page, line)
    page.get_by_role("button", name=RUN).click()
    line.let_go()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=LONG)
    assert box.input_value() == "A cow and a moon"
    expect(page.locator(".lane").first).to_contain_text("A cow and a moon")


def test_a_lesson_does_not_fall_back(far: Open) -> None:
    """Catches: a second press on the lock, sent before the first was answered, that shows the question again."""
    page, line = far("/course?lesson=race")
    page.locator("[data-testid=stRadio] label").nth(1).click()
    lock = page.locator(".st-key-course-lock button").first
    expect(lock).to_be_enabled(timeout=LONG)
    page.locator(STILL).wait_for(state="attached")
    line.slow = True
    lock.click()
    answered(page, line)
    lock.click()
    line.let_go()
    quiet(page, line)
    expect(page.locator(".trail [aria-current=step]")).to_have_text("Watch", timeout=LONG)
