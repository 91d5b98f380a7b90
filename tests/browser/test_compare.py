"""The comparison in a real browser: lanes built by hand, raced, read off, stopped, linked."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page

from app.ui.quirks import SELECTORS

from .conftest import RUN, STILL, Server, expect, until

Open = Callable[..., Page]
LONG_S = 60_000


def run(page: Page) -> None:
    page.locator(".st-key-go").get_by_role("button", name=RUN).click()


def choose(page: Page, key: str, title: str) -> None:
    """Choose an option of the form's selectbox by its title."""
    box = page.locator(f".st-key-{key}").get_by_role("combobox")
    box.click()
    page.get_by_role("option", name=title).first.click()


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def column(table: Locator, lane: int) -> dict[str, str]:
    """The table's figures of one lane, by their titles, as they stand there."""
    found = {}
    for row in table.locator("tbody tr").all():
        title = row.locator("th").evaluate("cell => cell.firstChild.textContent")
        found[title] = row.locator("td").nth(lane).locator("b").inner_text()
    return found


LEFT = """tabs => {
  tabs[1].dataset.focusVisible = "true";
  tabs[2].dataset.hovered = "true";
  return tabs.map((tab) => [getComputedStyle(tab).color, getComputedStyle(tab).boxShadow]);
}"""


def test_one_tab_looks_open_and_a_short_one_ends_where_it_ends(open_page: Open) -> None:
    """Catches: tabs that keep the colour and a cut ring of a visit; a window's height of nothing below a short tab."""
    page = open_page("/compare?tokens=8")
    run(page)
    expect(page.locator(".sd-why").first).to_be_visible(timeout=LONG_S)
    opened, *others = page.get_by_role("tab").evaluate_all(LEFT)
    assert {tuple(each) for each in others} == {tuple(others[-1])} and opened[0] != others[0][0]
    tab(page, "Prompts")
    page.locator(".st-key-sweep_start").wait_for()
    panel = page.locator(f"{SELECTORS['tab']}:visible")
    last = panel.locator(SELECTORS["element"]).last
    end = "part => part.getBoundingClientRect().bottom"
    until(lambda: panel.evaluate(end) - last.evaluate(end) < 60, 10)


def test_lanes_are_built_raced_read_off_and_come_back(open_page: Open) -> None:
    """The whole way: three lanes by hand, a race, a table whose figures are the traces', a reload that keeps all."""
    page = open_page("/compare?tokens=24")
    expect(page.locator(".st-key-lane-C")).to_contain_text("Prompt lookup")
    page.get_by_role("button", name="Add a lane").click()
    choose(page, "lane3-proposer", "Lookahead")
    expect(page.locator(".st-key-lane-D")).to_contain_text("Lookahead")
    page.get_by_role("button", name="Done").click()
    page.wait_for_url(re.compile(r"lane=draft-model&lane=prompt-lookup&lane=lookahead"), wait_until="commit")
    run(page)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)
    expect(page.locator(".lane")).to_have_count(4)
    main = page.locator(SELECTORS["main"])
    place = main.evaluate("main => (main.scrollTop = 400, main.scrollTop)")
    tab(page, "Table")
    table = page.locator(".sd-table")
    expect(table).to_be_visible()
    assert main.evaluate("main => main.scrollTop") == place, (
        "while a tab is drawn, the page stays where it is"
    )
    run_id = re.search(r"[?&]run=([^&]+)", page.url)
    assert run_id is not None
    for lane in range(4):
        stats = page.request.get(f"{page.url.split('/compare')[0]}/traces/{run_id[1]}-{lane}.json").json()[
            "stats"
        ]
        shown = column(table, lane)
        assert shown["Target passes"] == f"{stats['target_passes']:,}"
        assert shown["Guesses"] == f"{stats['proposed']:,}"
        assert shown["Wasted guesses"] == f"{stats['proposed'] - stats['accepted']:,}"
        assert shown["Tokens per pass τ"] == f"{stats['tokens_per_pass']:.2f}"
        assert shown["Tokens per second"] == f"{stats['tokens_per_second']:.1f}"
        drafting = (
            stats["draft_s"] if lane else 0.0
        )  # plain decoding's time before its passes is "Other work"
        assert shown["Drafting"] == f"{drafting:.3f} s"
        assert shown["Memory"].endswith(" MB")
    before = [column(table, lane) for lane in range(4)]
    page.reload()
    expect(page.locator(".st-key-lane-D")).to_contain_text("Lookahead")
    expect(page.locator(".sd-table")).to_be_visible()
    assert [column(page.locator(".sd-table"), lane) for lane in range(4)] == before
    run(page)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)
    expect(page.locator(".sd-table")).to_have_count(0)  # the race is shown, not the tab that was read before


def test_a_place_where_lanes_part_opens_in_the_player_and_brings_it_into_view(open_page: Open) -> None:
    """Catches also: a press that moves a player far above, out of sight."""
    page = open_page("/compare?tokens=32")
    run(page)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)
    page.get_by_text("Where two lanes guess differently").click()
    spot = page.locator("[class*=st-key-spot-]").first.get_by_role("button")
    position = int((spot.inner_text().split() or ["0"])[0])
    spot.click()
    page.wait_for_url(re.compile(r"lead=2.*round=\d+|round=\d+.*lead=2"), wait_until="commit")
    found = re.search(r"round=(\d+)", page.url)
    assert found is not None
    expect(page.locator(".transcript")).to_contain_text(f"Round {found[1]}")
    opened = page.url
    run_id = re.search(r"[?&]run=([^&]+)", opened)
    assert run_id is not None
    rounds = page.request.get(f"{page.url.split('/compare')[0]}/traces/{run_id[1]}-2.json").json()["rounds"]
    before = sum(len(row["committed"]["token"]) for row in rounds[: int(found[1]) - 1])
    assert before < position <= before + len(rounds[int(found[1]) - 1]["committed"]["token"])
    last = page.locator("[class*=st-key-spot-]").last.get_by_role("button")
    last.scroll_into_view_if_needed()
    player = page.locator(".player")
    top = "player => player.getBoundingClientRect().top"
    assert player.evaluate(top) < 0
    last.click()
    until(lambda: 0 <= player.evaluate(top) < 300, 20)  # below the answer and the tabs
    expect(page.locator(".st-key-answer h4")).to_be_in_viewport(ratio=1)
    expect(player).to_be_focused()
    page.wait_for_url(lambda url: url != opened and "round=" in url, wait_until="commit")
    page.keyboard.press("ArrowUp")
    expect(player).to_be_focused()


def test_escape_stops_all_lanes(open_page: Open, server: Server) -> None:
    page = open_page("/compare?tokens=900&prompt=the+dog+the+dog+the+dog+the+dog&lane=draft-model;gamma=1")
    run(page)
    until(lambda: server.busy() == 1, 20)
    expect(page.locator(".lane").nth(1).locator(".round").first).to_be_visible()
    page.keyboard.press("Escape")
    until(lambda: server.busy() == 0, 10)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)


def test_the_way_back_to_a_run_leads_to_its_stop_as_well(open_page: Open, server: Server) -> None:
    """Catches: a run that goes on behind a page without a Stop, and a page of its own for each part of an address."""
    page = open_page("/compare?tokens=900&prompt=the+dog+the+dog+the+dog+the+dog&lane=draft-model;gamma=1")
    run(page)
    until(lambda: server.busy() == 1, 20)
    page.wait_for_url(re.compile("run="), wait_until="commit")
    page.get_by_test_id("stTopNav").get_by_role("link", name="Library").click()
    page.get_by_text("Nothing here yet").wait_for()
    page.go_back(wait_until="commit")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_enabled()
    expect(page.locator(".lane").nth(1).locator(".round").first).to_be_visible()
    stop.click()
    until(lambda: server.busy() == 0, 10)


@pytest.mark.parametrize(
    ("entry", "lanes"),
    [
        ("Duplicate", ["draft-model", "draft-model", "prompt-lookup"]),
        ("Move right", ["prompt-lookup", "draft-model"]),
        ("Remove", ["prompt-lookup"]),
    ],
)
def test_every_entry_of_a_lanes_menu_is_chosen_by_keys(open_page: Open, entry: str, lanes: list[str]) -> None:
    page = open_page("/compare?tokens=17&lane=draft-model&lane=prompt-lookup")
    page.locator(".st-key-lane-B").get_by_role("button", name="More").focus()
    page.keyboard.press("Enter")
    page.get_by_role("menuitem", name=entry).wait_for()
    for _ in range(8):  # round and round; the menu takes the focus a moment after it has opened
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(100)
        if page.evaluate("document.activeElement.innerText").strip() == entry:
            break
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get("lane") == lanes, wait_until="commit")
    expect(page.get_by_role("menuitem")).to_have_count(0)


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_a_lane_s_form_comes_into_view_and_the_keyboard_stays(open_page: Open, size: tuple[int, int]) -> None:
    """Catches: Change that seems to do nothing, as its form opens below the screen."""
    page = open_page("/compare", viewport={"width": size[0], "height": size[1]})
    change = page.locator(".st-key-lane-C").get_by_role("button", name="Change")
    change.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-lane-form")).to_be_in_viewport(ratio=0.99)
    expect(change).to_be_focused()
    expect(change).to_be_in_viewport(ratio=0.99)  # no further than needed


def test_a_comparison_is_built_run_and_read_by_keys_alone(open_page: Open) -> None:
    page = open_page("/compare?tokens=17")
    page.locator(".st-key-lane-B").get_by_role("button", name="Change").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-lane-form")).to_be_visible()
    expect(page.locator(".st-key-lane-B")).to_contain_text("open below")
    page.locator(STILL).wait_for(state="attached")
    page.keyboard.press("Tab")  # its other box: where one was is not lost as the form opens
    expect(page.locator(".st-key-lane-B").get_by_role("button", name="More")).to_be_focused()
    page.get_by_role("button", name="Add a lane").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-lane-D")).to_contain_text("open below")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)
    page.locator(STILL).wait_for(state="attached")
    page.get_by_role("tab", name="Race", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sd-table")).to_be_visible()
    page.get_by_role("button", name="Glossary").focus()
    page.keyboard.press("Enter")
    words = page.get_by_role("region", name="Glossary")
    expect(words).to_be_visible()
    words.focus()
    page.keyboard.press("PageDown")
    box = page.get_by_test_id("stPopoverBody")
    until(lambda: bool(box.evaluate("box => box.scrollTop > 0")), 10)
    page.get_by_role("searchbox", name="Search the glossary").fill("rollback")
    expect(words.locator("dt")).to_have_text(["Rollback"])  # without Enter
    page.keyboard.press("Escape")
    expect(words).to_be_hidden()


def test_a_teacher_s_link_presents_the_race(open_page: Open) -> None:
    page = open_page("/compare?tokens=17&lane=prompt-lookup")
    run(page)
    expect(page.get_by_role("tab", name="Table", exact=True)).to_be_visible(timeout=LONG_S)
    # A short run is over before the player follows it: only then does it come into view, and the page rest.
    expect(page.locator(".player:not(.is-live) .controls")).to_be_visible(timeout=LONG_S)
    page.get_by_role("button", name="Teacher's link").click()
    link = page.locator("[data-testid=stCode] code")
    expect(link).to_contain_text("lane=prompt-lookup")
    expect(link).to_contain_text("run=")
    page.get_by_role("button", name="Present now").click()
    expect(page.get_by_role("button", name="Leave")).to_be_visible()
    expect(page.locator(".lane").locator("visible=true")).to_have_count(1)
    for gone in (
        page.get_by_role("heading", name="Compare"),
        page.locator(".st-key-go"),
        page.get_by_role("tab"),
    ):
        expect(gone.locator("visible=true")).to_have_count(0)
    page.keyboard.press("Home")
    expect(page.locator(".transcript")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("tab", name="Table", exact=True)).to_be_visible()
    page.wait_for_url(lambda url: "present" not in url and "tokens=17" in url, wait_until="commit")


def test_six_lanes_are_six_lines_on_a_phone(open_page: Open) -> None:
    """Catches: cards that take a phone's whole height; buttons too small for a finger."""
    lanes = "".join(f"&lane={lane}" for lane in (
        "draft-model", "branching;o.width=3", "draft-model;rule=typical", "lookahead", "early-exit"))  # fmt: skip
    page = open_page(f"/compare?tokens=17{lanes}", viewport={"width": 390, "height": 844})
    for letter in "ABCDEF":
        card = page.locator(f".st-key-lane-{letter}")
        box = card.bounding_box()
        assert box is not None and box["height"] <= 52, (letter, box)
        for button in card.get_by_role("button").all():
            size = button.bounding_box()
            assert size is not None and min(size["width"], size["height"]) >= 24
    page.locator(".st-key-lane-B").get_by_role("button", name="Change").click()
    expect(page.locator(".st-key-lane-form")).to_be_visible()


def test_the_page_holds_its_width_on_a_phone(open_page: Open) -> None:
    """Nothing makes the page itself scroll sideways; the table scrolls within its own frame."""
    page = open_page("/compare?tokens=20&tab=Table&lane=draft-model&lane=branching&lane=lookahead",
                     viewport={"width": 390, "height": 844})  # fmt: skip
    page.locator(".st-key-go").get_by_role("button", name=RUN).first.click()
    expect(page.locator(".sd-table")).to_be_visible(timeout=LONG_S)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    frame = page.locator(".sd-scroll")
    assert frame.evaluate("box => box.scrollWidth > box.clientWidth")
    frame.focus()
    page.keyboard.press("ArrowRight")
