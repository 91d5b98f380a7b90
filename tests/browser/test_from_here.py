"""From here, in the app: on a phone and by keyboard, a candidate continues the text; the way back stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Page

import specdec_core as sd

from .conftest import RUN, STILL, Server, expect

WORDS = "Once upon a time, there was a little boy named Hugo. Hugo had"
LANES = 2


def run_id(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["run"][0]


def records(page: Page, server: Server) -> list[sd.Trace]:
    """Those of the run that the address names."""
    answers = [page.request.get(f"{server.url}/traces/{run_id(page)}-{lane}.json") for lane in range(LANES)]
    return [sd.Trace.from_json(answer.text()) for answer in answers]


def done(page: Page) -> None:
    expect(page.locator(".player:not(.is-live)")).to_be_visible(timeout=60_000)
    expect(page.locator(STILL)).to_be_attached()
    expect(page.get_by_role("button", name="Download", exact=True)).to_be_visible()


def ran(open_page: Callable[..., Page]) -> Page:
    page = open_page(f"/?tokens=40&prompt={quote(WORDS)}", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name=RUN).click()
    page.wait_for_url(re.compile("run="))
    done(page)
    return page


def go_on(page: Page, nth: int) -> str:
    """Choose a candidate of the last round by keyboard alone; its text."""
    before = run_id(page)
    player = page.locator(".player")
    page.get_by_role("button", name="Odds", exact=True).press("Enter")
    player.press("End")
    button = page.locator(".bar-row .from-here").nth(nth)
    word = str(button.get_attribute("aria-label")).removeprefix("Go on from here with ")
    page.locator(".bar-row .from-here").nth(nth - 1).focus()
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    expect(button).to_have_css("opacity", "1")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "run=" in url and before not in url)
    done(page)
    return word


def test_a_candidate_goes_on_and_the_first_run_can_be_returned_to(
    open_page: Callable[..., Page], server: Server
) -> None:
    """Catches: a continuation that is not the decoder's own, a record without the forced token, a way that needs a
    pointer or more than a phone's width, a first run that is lost."""
    page = ran(open_page)
    first, before = run_id(page), records(page, server)
    word = go_on(page, 1)
    after, models = records(page, server), sd.load_models(device="cpu")
    branch = after[1].header.branch
    assert branch and branch.trace in {trace.header.id for trace in before}
    of = next(trace for trace in before if trace.header.id == branch.trace)
    ids = [*of.header.prompt_ids, *of.token_ids[: branch.at], branch.token]
    fresh = sd.decode(models, ids, sd.Settings(max_new_tokens=40))
    assert [trace.token_ids for trace in after] == [fresh.token_ids] * LANES
    assert all(trace.header.prompt_ids == ids and trace.audit() == [] for trace in after)
    row = page.get_by_role("group", name="Runs that go on from each other").get_by_role("button")
    expect(row).to_have_text(["First run", f"⤷ {word}"])
    expect(page.locator(".lane .forced").last).to_have_text(word.strip("‘’").replace("␣", " "))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    row.first.press("Enter")
    page.wait_for_url(re.compile(first))
    expect(row.first).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".lane .forced").last).to_be_hidden()
    assert records(page, server)[1].token_ids == before[1].token_ids
    row.last.press("Enter")
    expect(row.last).to_have_attribute("aria-pressed", "true")
    page.reload()
    done(page)
    expect(row).to_have_text(["First run", f"⤷ {word}"])
    page.goto(f"{server.url}/library?run={run_id(page)}")
    expect(page.locator(".lane .forced").last).to_have_attribute("title", re.compile("was chosen here"))
    expect(page.locator(".from-here")).to_have_count(0)


def test_a_recorded_race_offers_nothing_to_go_on_from(open_page: Callable[..., Page]) -> None:
    """Catches: a candidate that can be pressed where no model of the run is loaded."""
    page = open_page()
    page.locator(".st-key-step button").click()
    page.locator(".player").press("End")
    expect(page.locator(".bar-row").first).to_be_visible()
    expect(page.locator(".from-here, .runs button")).to_have_count(0)
