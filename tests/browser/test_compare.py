"""The comparison in a real browser: lanes built by hand, raced, read off, stopped, linked."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from .conftest import Server, until

Open = Callable[..., Page]
LONG_S = 60_000


def run(page: Page) -> None:
    page.locator(".st-key-go").get_by_role("button", name="Run").click()


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
    tab(page, "Table")
    table = page.locator(".sd-table")
    expect(table).to_be_visible()
    run_id = re.search(r"[?&]run=([^&]+)", page.url)
    assert run_id is not None
    for lane in range(4):
        stats = page.request.get(f"{page.url.split('/compare')[0]}/traces/{run_id[1]}-{lane}.json").json()[
            "stats"
        ]
        shown = column(table, lane)
        assert shown["Target passes"] == f"{stats['target_passes']:,}"
        assert shown["Proposed"] == f"{stats['proposed']:,}"
        assert shown["Wasted"] == f"{stats['proposed'] - stats['accepted']:,}"
        assert shown["Tokens per pass τ"] == f"{stats['tokens_per_pass']:.2f}"
        assert shown["Tokens per second"] == f"{stats['tokens_per_second']:.0f}"
        assert shown["Drafting"] == f"{stats['draft_s']:.3f} s"
        assert shown["Memory"].endswith(" MB")
    before = [column(table, lane) for lane in range(4)]
    page.reload()
    expect(page.locator(".st-key-lane-D")).to_contain_text("Lookahead")
    expect(page.locator(".sd-table")).to_be_visible()
    assert [column(page.locator(".sd-table"), lane) for lane in range(4)] == before


def test_a_place_where_lanes_part_opens_in_the_player(open_page: Open) -> None:
    page = open_page("/compare?tokens=32")
    run(page)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)
    page.get_by_text("Where two lanes part").click()
    spot = page.locator("[class*=st-key-spot-]").first.get_by_role("button")
    position = int((spot.inner_text().split() or ["0"])[0])
    spot.click()
    page.wait_for_url(re.compile(r"lead=2.*round=\d+|round=\d+.*lead=2"), wait_until="commit")
    found = re.search(r"round=(\d+)", page.url)
    assert found is not None
    expect(page.locator(".transcript")).to_contain_text(f"Round {found[1]}")
    run_id = re.search(r"[?&]run=([^&]+)", page.url)
    assert run_id is not None
    rounds = page.request.get(f"{page.url.split('/compare')[0]}/traces/{run_id[1]}-2.json").json()["rounds"]
    before = sum(len(row["committed"]["token"]) for row in rounds[: int(found[1]) - 1])
    assert before < position <= before + len(rounds[int(found[1]) - 1]["committed"]["token"])


def test_escape_stops_all_lanes(open_page: Open, server: Server) -> None:
    page = open_page("/compare?tokens=900&prompt=the+dog+the+dog+the+dog+the+dog&lane=draft-model;gamma=1")
    run(page)
    until(lambda: server.busy() == 1, 20)
    expect(page.locator(".lane").nth(1).locator(".round").first).to_be_visible()
    page.keyboard.press("Escape")
    until(lambda: server.busy() == 0, 10)
    expect(page.get_by_text("Why faster, why slower?")).to_be_visible(timeout=LONG_S)


def test_the_page_holds_its_width_on_a_phone(open_page: Open) -> None:
    """Nothing makes the page itself scroll sideways; the table scrolls within its own frame."""
    page = open_page("/compare?tokens=20&tab=Table&lane=draft-model&lane=branching&lane=lookahead",
                     viewport={"width": 390, "height": 844})  # fmt: skip
    page.locator(".st-key-go").get_by_role("button", name="Run").first.click()
    expect(page.locator(".sd-table")).to_be_visible(timeout=LONG_S)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    frame = page.locator(".sd-scroll")
    assert frame.evaluate("box => box.scrollWidth > box.clientWidth")
    frame.focus()
    page.keyboard.press("ArrowRight")
