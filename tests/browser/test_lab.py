"""The lab in a real browser: boot, run, stop, keys, links, text that looks like code, leaving."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from app.ui.quirks import SELECTORS

from .conftest import RUN, STILL, Server, expect, until

log = logging.getLogger(__name__)

Open = Callable[..., Page]
# A text that the bundled target never ends by itself.
LONG = "/?tokens=900&prompt=" + quote("the dog the dog the dog the dog the dog")


# What moved although nobody had asked for it, as shares of the screen; a press is answered within half a second.
SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      const moved = sources.map(({ node, previousRect: from, currentRect: to }) =>
        [node?.className || node?.nodeName, from.y, from.height, to.y, to.height].join(" "));
      if (!hadRecentInput) shifts.push([value, moved]);
    }
  }).observe({ type: "layout-shift" });
}"""


def run_to_the_end(page: Page) -> None:
    page.get_by_role("button", name=RUN).click()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=60_000)


def begin(page: Page, server: Server) -> None:
    """Press Run and wait for the first tokens; before them the player still shows the recorded run."""
    page.get_by_role("button", name=RUN).click()
    until(lambda: server.busy() == 1, 20)
    expect(page.get_by_role("button", name="Stop")).to_be_enabled()
    expect(page.get_by_role("button", name="Stop")).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("this machine, this run").first).to_be_visible()
    expect(page.locator(".lane").nth(1).locator(".round").first).to_be_visible()


def seen_together(page: Page) -> None:
    """Both lanes and the sentence, nobody having scrolled."""
    for part in (".lane", ".leads", ".transcript"):
        expect(page.locator(part).first).to_be_in_viewport(ratio=0.99)


def test_it_boots_without_a_complaint_and_shows_a_recorded_run_which_it_says_to_be_one(
    open_page: Open,
) -> None:
    began = time.monotonic()
    page = open_page()
    log.info("interactive after %.2f s", time.monotonic() - began)
    expect(page).to_have_title("Specdec Lab")
    expect(page.get_by_role("heading", name="Specdec Lab")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.locator(".st-key-landing")).to_contain_text("Recorded 20")
    page.locator(".st-key-step button").click()
    expect(page.locator(".lane")).to_have_count(2)
    expect(page.locator(".provenance:not(.slowed)")).to_contain_text("recorded")
    seen_together(page)


def test_a_run_shows_both_lanes_then_numbers_charts_and_a_replay(open_page: Open) -> None:
    page = open_page("/?tokens=32")
    page.locator(".st-key-step button").click()
    expect(page.locator(".lane")).to_have_count(2)
    page.evaluate(SHIFTS)
    run_to_the_end(page)
    expect(page.locator(".lane")).to_have_count(2)
    moved = page.evaluate("shifts")
    assert sum(share for share, _ in moved) <= 0.1, moved
    for label in ("Measured speedup", "Modelled speedup", "Acceptance rate α", "Tokens per pass τ"):
        expect(page.locator("[data-testid=stMetric]").filter(has_text=label)).to_be_visible()
    expect(page.get_by_text("measured · this machine, this run").first).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    expect(page.get_by_role("slider", name="Round", exact=True)).to_be_visible()
    page.get_by_role("button", name="Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace (JSON)").last.click()
    assert json.loads(Path(download.value.path()).read_bytes())["format"] == "specdec-trace"
    with page.expect_download() as download:
        page.get_by_role("button", name="Rounds (CSV)").last.click()
    assert download.value.suggested_filename.endswith("-1-rounds.csv")


def test_escape_stops_a_run_and_what_was_decoded_stays(open_page: Open, server: Server) -> None:
    page = open_page(LONG)
    begin(page, server)
    seen_together(page)
    page.keyboard.press("Escape")
    until(lambda: server.busy() == 0, 5)
    expect(page.get_by_text("Target passes saved")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert page.locator(".lane").nth(1).locator(".tok").count() > 0
    assert "stopped, " in server.log().splitlines()[-1]


@pytest.mark.parametrize("width", [390, 1024])
def test_stop_covers_nothing_of_a_run_that_needs_more_than_the_screen(
    open_page: Open, server: Server, width: int
) -> None:
    """Catches: Stop over the sentence that says what the round did."""
    page = open_page(LONG, viewport={"width": width, "height": 768})
    begin(page, server)
    stop = page.get_by_role("button", name="Stop")
    head, box = page.locator(SELECTORS["header"]).bounding_box(), stop.bounding_box()
    assert head is not None and box is not None
    assert head["y"] <= box["y"] and box["y"] + box["height"] <= head["y"] + head["height"]
    stop.click()
    until(lambda: server.busy() == 0, 5)


def test_control_and_enter_in_the_prompt_box_run_what_was_just_typed(open_page: Open) -> None:
    page = open_page("/?tokens=8")
    box = page.get_by_role("textbox", name="Prompt")
    box.fill("The hen and the horse ")
    box.press("Control+Enter")
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=60_000)
    expect(page.locator(".lane .prompt").first).to_contain_text("The hen and the horse")
    expect(page.locator(".player")).to_be_focused()  # its keys, and no longer the prompt's
    page.keyboard.press("Home")
    expect(page.locator(".where")).to_contain_text("The prompt")
    expect(box).to_have_value("The hen and the horse ")


def test_a_run_opens_at_a_place_of_its_own_and_a_reload_where_the_keys_have_led(open_page: Open) -> None:
    """Catches: a shared link to a new run that opens at a round chosen in the demo, where no number stands yet."""
    page = open_page("/?tokens=32")
    page.locator(".st-key-step button").click()
    page.locator(".control.first").click()
    page.locator(".control.next").click()
    page.wait_for_url(re.compile(r"[?&]round=1"), wait_until="commit")
    run_to_the_end(page)
    page.wait_for_timeout(1_000)
    address = str(page.evaluate("location.href"))
    assert "run=" in address and "round=" not in address
    expect(page.locator(".pace")).to_contain_text("for the result")  # not where the demo was
    page.locator(".player").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".transcript")).to_contain_text("Round 3")
    page.wait_for_url(re.compile(r"[?&]round=3"), wait_until="commit")
    transcript = page.locator(".transcript").inner_text()
    page.reload()
    expect(page.locator(".transcript")).to_have_text(transcript)
    page.locator(".player").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".transcript")).to_contain_text("Round 2")


def test_settings_go_to_the_address_and_come_back_from_it(open_page: Open) -> None:
    page = open_page("/?proposer=prompt-lookup&seed=11")
    page.locator(".st-key-more button").first.click()
    page.get_by_role("slider", name="Guesses per round").press("ArrowRight")
    page.keyboard.press("Escape")
    box = page.get_by_role("textbox", name="Prompt")
    box.fill("A pig, a dog")
    box.blur()
    page.wait_for_url(lambda url: "gamma=5" in url and "prompt=A+pig%2C+a+dog" in url, wait_until="commit")
    page.reload()
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value("A pig, a dog")
    page.locator(".st-key-more button").first.click()
    expect(page.get_by_role("slider", name="Guesses per round")).to_have_value("5")
    expect(page.get_by_role("combobox", name="Proposer")).to_have_value("Prompt lookup")
    expect(page.get_by_role("spinbutton", name="Seed")).to_have_value("11")


def test_a_prompt_that_looks_like_code_or_mathematics_is_shown_as_text(open_page: Open) -> None:
    prompt = 'Say <script>document.title="hacked"</script> <img src=x onerror=alert(1)> and $math$ **bold** :red[x]'
    page = open_page(f"/?tokens=8&prompt={quote(prompt)}")
    page.on("dialog", lambda dialog: (_ for _ in ()).throw(AssertionError("a script of the prompt ran")))
    run_to_the_end(page)
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value(prompt)
    expect(page.locator(".lane .prompt").first).to_contain_text("<script>")
    expect(page.locator(".lane .prompt").first).to_contain_text("$math$")
    assert "hacked" not in page.title()
    assert page.locator(".katex, .player script, .player img").count() == 0


def test_bad_input_is_a_sentence_and_nothing_is_lost(open_page: Open, server: Server) -> None:
    page = open_page("/?gamma=-3&temperature=nan&proposer=magic&model=..%2f..%2fetc&top_k=7")
    warning = page.get_by_role("alert").filter(has_text="draft length")
    for words in ("from 1 to 16", "temperature", "“magic”", "../../etc"):
        expect(warning).to_contain_text(words)
    box = page.get_by_role("textbox", name="Prompt")
    box.fill("x" * 100_000)
    page.get_by_role("button", name=RUN).click()
    expect(page.get_by_role("alert").filter(has_text="100,000 characters").first).to_be_visible()
    assert len(box.input_value()) == 100_000
    box.fill("   ")
    page.get_by_role("button", name=RUN).click()
    expect(page.get_by_role("alert").filter(has_text="The prompt is empty")).to_be_visible()
    assert server.busy() == 0


def test_closing_the_tab_ends_the_run(open_page: Open, server: Server) -> None:
    page = open_page(LONG)
    begin(page, server)
    assert server.busy() == 1
    page.close()
    until(lambda: server.busy() == 0, 5)


def test_a_second_session_waits_in_line_and_sees_its_place(open_page: Open, server: Server) -> None:
    first, second = open_page(LONG), open_page("/?tokens=8")
    begin(first, server)
    second.get_by_role("button", name=RUN).click()
    expect(
        second.get_by_text(re.compile(r"1 run ahead of yours(, about \d+ s)?\. It starts"))
    ).to_be_visible()
    first.keyboard.press("Escape")
    expect(second.get_by_text("Target passes saved")).to_be_visible(timeout=30_000)


def test_the_way_back_leads_to_the_page_before_not_through_the_viewers_moves(open_page: Open) -> None:
    page = open_page("/")
    bar = page.get_by_test_id("stTopNav")
    bar.get_by_role("link", name="Library").click()
    page.get_by_text("Nothing here yet").wait_for()
    bar.get_by_role("link", name="Lab").click()
    page.locator(".st-key-step button").click()
    expect(page.locator(".lane")).to_have_count(2)
    page.locator(".player").focus()
    steps = page.evaluate("history.length")
    for key, address in (("Home", "round=0"), ("ArrowDown", "round=1"), ("ArrowRight", "step=0")):
        page.keyboard.press(key)
        page.wait_for_url(re.compile(address), wait_until="commit")
        page.wait_for_timeout(300)  # what the server writes comes later
    page.locator(STILL).wait_for(state="attached")
    assert page.evaluate("history.length") == steps
    page.go_back(wait_until="commit")
    expect(page.get_by_text("Nothing here yet")).to_be_visible()


def test_the_way_back_from_the_comparison_leads_to_the_settings_that_were_left(open_page: Open) -> None:
    """Both pages have a field of that name. Catches: a setting that Streamlit takes out of the address on the way."""
    page = open_page("/?tokens=61&seed=9&embed_options=show_padding")
    page.locator(STILL).wait_for(state="attached")
    page.get_by_test_id("stTopNav").get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    page.wait_for_url(re.compile("/compare"), wait_until="commit")
    page.go_back(wait_until="commit")
    page.wait_for_url(re.compile("tokens=61&seed=9"), wait_until="commit")
    page.locator(".st-key-more button").first.click()
    expect(page.get_by_role("spinbutton", name="New tokens")).to_have_value("61")
    expect(page.get_by_role("spinbutton", name="Seed")).to_have_value("9")
    page.keyboard.press("Escape")
    page.go_forward(wait_until="commit")
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()


def test_a_visitor_who_guesses_is_asked_and_closing_the_tab_ends_the_wait(
    open_page: Open, server: Server
) -> None:
    """Catches: an answer that does not reach the run, a run that goes on asking a closed tab, and a blocked line."""
    page, other = open_page("/?proposer=you&tokens=40"), open_page("/?tokens=8")
    page.get_by_role("button", name=RUN).click()
    box = page.get_by_role("textbox", name="What comes next?")
    expect(box).to_be_focused()
    box.fill(" He")
    box.press("Enter")
    expect(page.locator(".lane").nth(1).locator(".round").first).to_be_visible()
    expect(box).to_have_value("")
    assert server.health()["runs"]["asking"] == 1
    run_to_the_end(other)  # whoever thinks holds no device
    page.close()
    until(lambda: server.health()["runs"]["asking"] == 0, 5)


def test_a_branching_run_draws_its_trees_and_its_options_come_back_with_the_link(open_page: Open) -> None:
    page = open_page("/?proposer=branching&o.width=4&tokens=24")
    run_to_the_end(page)
    page.locator(".player").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tree .chip").first).to_be_visible()
    expect(page.locator(".tree .chip.accepted, .tree .chip.rejected").first).to_be_visible()
    page.locator(".st-key-more button").first.click()
    expect(page.get_by_role("slider", name="Width")).to_have_value("4")
    page.get_by_role("slider", name="Width").press("ArrowRight")
    page.wait_for_url(re.compile(r"o\.width=5"), wait_until="commit")


def test_a_lossy_rule_is_labelled_before_and_after_the_run(open_page: Open) -> None:
    page = open_page("/?rule=typical&tokens=16")
    expect(page.get_by_text("lossy: Typical acceptance").first).to_be_visible()
    run_to_the_end(page)
    expect(page.locator(".score .lossy")).to_be_visible()
    expect(page.get_by_text("measured · lossy rule")).to_be_visible()
    assert page.get_by_text("speculation changed the time, not the text").count() == 0


def test_a_phone_in_the_dark_has_everything_and_scrolls_in_one_direction_only(open_page: Open) -> None:
    page = open_page("/?tokens=16", viewport={"width": 390, "height": 844}, color_scheme="dark")
    run_to_the_end(page)
    wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert wide <= 390
    assert page.locator("button kbd:visible").count() == 0, "a phone has no Ctrl"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        == "rgb(20, 24, 31)"
    )


def test_the_server_s_log_has_no_warning_and_no_traceback(server: Server) -> None:
    """Last in the file: it reads what the tests before it have left."""
    assert not re.search(r"WARNING|ERROR|Traceback|[Dd]eprecat", server.log()), server.log()[-3000:]
