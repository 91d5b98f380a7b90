"""The course without a server: answers are locked before they are shown, kept on the device, exported and cleared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from app.course import progress
from app.course.files import reading
from app.site.build import write
from tests.browser import axe
from tests.browser.conftest import Sight, expect

SHOWN = ".ask details, #after h2, #after p"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(folder)
    return folder


@pytest.fixture
def page(browser: Browser, complaints: Sight) -> Iterator[Page]:
    """A phone's page whose requests count as complaints."""
    shown = browser.new_page(viewport={"width": 390, "height": 844})
    complaints.watch(shown)
    shown.on(
        "request",
        lambda one: None if one.url.startswith(("file:", "blob:", "data:")) else complaints.append(one.url),
    )
    yield shown
    shown.close()


def test_an_answer_is_shown_once_one_is_locked(page: Page, site: Path) -> None:
    """Catches: an answer in sight before the lock, a lock that only a pointer reaches or that can be taken back, a
    verdict that is not read out, answers forgotten by a reload."""
    page.goto((site / "lessons/race.html").as_uri())
    lock = page.get_by_role("button", name="Lock my answer")
    for shown in page.locator(SHOWN).all():
        expect(shown).to_be_hidden()
    axe.check(page, "before the lock")
    expect(lock).to_have_count(1)
    expect(lock).to_be_disabled()
    asked = page.get_by_role("group", name="First predict")
    asked.locator("input[value=both]").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(lock).to_be_focused()
    page.keyboard.press("Enter")
    verdict = asked.locator(".verdict").first
    expect(verdict).to_be_focused()
    expect(verdict).to_have_text("✗ Not right, and locked.")
    expect(asked.locator("details")).to_have_attribute("open", "")
    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    checked = page.get_by_role("group", name="Then check yourself")
    expect(checked.locator("details")).to_be_hidden()
    checked.locator("input[value=depends]").check()
    lock.click()
    expect(checked.locator(".verdict").first).to_have_text("✓ Right, and locked.")
    axe.check(page, "after the lock")
    page.reload()
    expect(asked.locator("input[value=both]")).to_be_checked()
    expect(page.locator(".ask input:enabled")).to_have_count(0)
    expect(lock).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_course_is_in_german_as_well(page: Page, site: Path) -> None:
    """Catches: a sentence of the script in the other language, answers that one language does not know of, no way to
    the same lesson in the other."""
    page.goto((site / "lessons/race.html").as_uri())
    page.get_by_role("link", name="Deutsch").click()
    page.wait_for_url("**/de/lessons/race.html")
    assert page.locator("html").get_attribute("lang") == "de"
    asked = page.get_by_role("group", name="Zuerst vorhersagen")
    asked.locator("input[value=both]").check()
    page.get_by_role("button", name="Antwort festlegen").click()
    expect(asked.locator(".verdict").first).to_have_text("✗ Nicht richtig und festgelegt.")
    yours = "getComputedStyle(document.querySelector('label:has(:checked) span'), '::after').content"
    assert page.evaluate(yours) == '" (Ihre Antwort)"'
    expect(page.get_by_role("heading", name="Warum")).to_be_visible()
    page.get_by_role("link", name="Kurs", exact=True).click()
    status = "Vorhersagen: 1 von 25 festgelegt, 0 richtig. Prüfungen: 0 von 25 festgelegt, 0 richtig."
    expect(page.locator("#progress [role=status]")).to_contain_text(status)
    axe.check(page, "the course in German")
    page.get_by_role("link", name="English").click()
    expect(page.locator("#progress [role=status]")).to_contain_text("Predictions: 1 of 25 locked, 0 right.")


def test_numbers_and_several_answers_are_judged_as_in_the_lab(page: Page, site: Path) -> None:
    """Catches: a tolerance that is forgotten, some of the right options that count as all, a number out of range."""
    for key, given in (
        ("length", 3.9), ("length", 4.5), ("draft-verify", 3.0), ("tokens", ["a"]), ("tokens", ["h", "e", "b", "a"]),
    ):  # fmt: skip
        lesson, _ = reading.read("en", key)
        page.goto((site / f"lessons/{key}.html").as_uri())
        page.evaluate("localStorage.clear()")
        page.reload()
        asked = page.get_by_role("group", name="First predict")
        if isinstance(given, float):
            asked.get_by_label("Your prediction").fill("11")
            expect(page.get_by_role("button")).to_be_disabled()
            asked.get_by_label("Your prediction").fill(str(given))
        else:
            for option in given:
                asked.locator(f"input[value={option}]").check()
        page.get_by_role("button").click()
        assert lesson is not None
        expect(asked.locator(".verdict").first).to_have_text(
            "✓ Right, and locked." if lesson.is_right("predict", given) else "✗ Not right, and locked."
        )


def test_progress_is_shown_saved_for_the_lab_and_cleared(page: Page, site: Path) -> None:
    """Catches: a list that forgets, a file that the lab cannot continue from, a clear at the first touch."""
    page.goto((site / "lessons/race.html").as_uri())
    page.locator("input[value=code]").check()
    page.get_by_role("button").click()
    page.get_by_role("link", name="Course", exact=True).click()
    status = page.get_by_role("status")
    expect(status).to_contain_text(re.compile(r"^Predictions: 1 of 25 locked, 1 right\. Checks: 0 of 25"))
    expect(page.locator(".list li").first).to_contain_text("Prediction: ✓ right · Check: not yet")
    axe.check(page, "the course's list")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save progress").click()
    kept = progress.from_json(saving.value.path().read_text(encoding="utf-8")).of("race").predict
    assert kept is not None and (kept.given, kept.right) == ("code", True)
    page.get_by_role("button", name="Clear progress").click()
    expect(status).to_contain_text("1 of 25")
    page.get_by_role("button", name="Press again").click()
    expect(status).to_contain_text("Predictions: 0 of 25 locked, 0 right")
    assert json.loads(page.evaluate("localStorage.getItem('specdec-course')")) == {}


def test_without_a_script_a_lesson_is_all_there(browser: Browser, site: Path) -> None:
    """Catches: a page that is empty, or a form that cannot be sent, where scripts are off."""
    page = browser.new_page(java_script_enabled=False)
    page.goto((site / "lessons/race.html").as_uri())
    for heading in ("First predict", "Why", "Then check yourself"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert page.locator("input, button").count() == 0 and page.locator("details:visible").count() == 2
    page.close()


def test_only_the_pages_own_script_runs(page: Page, site: Path, complaints: Sight) -> None:
    """Catches: a policy that lets foreign scripts in."""
    text = (site / "lessons/race.html").read_text(encoding="utf-8")
    (site / "lessons/foreign.html").write_text(
        text.replace("</main>", "</main><script>document.title = 'foreign'</script>"), encoding="utf-8"
    )
    page.goto((site / "lessons/foreign.html").as_uri())
    expect(page.get_by_role("button", name="Lock my answer")).to_be_visible()
    assert (
        page.title() != "foreign" and len(complaints) == 1 and "Content Security Policy" in complaints.pop()
    )
