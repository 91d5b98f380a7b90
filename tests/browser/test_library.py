"""The library in a real browser: a run is kept, opened, shared with another browser; files come in; a phone."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from .conftest import ROOT, RUN, Come, Server, Sight, expect

Open = Callable[..., Page]
SLOW = 60_000


@pytest.fixture
def visit(server: Server, complaints: Sight, come: Come) -> Open:
    """Open an address as a new visitor, with cookies of their own."""

    def open_one(address: str = "/library", **options: Any) -> Page:
        page = come(**options)
        page.set_default_timeout(SLOW)
        complaints.watch(page)
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.goto(address if "://" in address else server.url + address)
        return page

    return open_one


def test_the_served_app_signs_its_visitors_and_takes_no_invented_one(server: Server) -> None:
    """Catches: a server that checks signatures everywhere but does not ask for them."""

    def given(sent: str = "", **headers: str) -> str:
        """The cookie that a page comes with."""
        asked = urllib.request.Request(server.url, headers={"Accept": "text/html", "Cookie": sent, **headers})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(answer.headers["Set-Cookie"])

    first = given().partition(";")[0]
    owner, _, signature = first.partition("=")[2].partition(".")
    assert len(owner) >= 32 and len(signature) >= 32
    assert given(first).startswith(f"{first};")
    for invented in (owner, "a" * 43, f"{'a' * 43}.{signature}"):
        assert owner not in (new := given(f"specdec_owner={invented}")) and invented not in new
    behind_tls = given(first, **{"X-Forwarded-Proto": "https"})
    assert (
        behind_tls.startswith("__Host-specdec_owner=")
        and "; Secure" in behind_tls
        and owner not in behind_tls
    )


def test_an_example_is_opened_walked_through_and_found_again_by_its_address(visit: Open) -> None:
    page = visit()
    expect(page.get_by_text("Nothing here yet")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="A draft model on code").click()
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    expect(page.locator(".provenance:not(.slowed)")).to_contain_text("recorded")
    page.locator(".control.first").click()
    page.wait_for_url(re.compile(r"run=recorded\.draft-model.*round=0"), wait_until="commit")
    transcript = page.locator(".transcript").inner_text()
    page.reload()
    expect(page.locator(".transcript")).to_have_text(transcript, timeout=SLOW)
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".lane")).to_have_count(0, timeout=SLOW)


def test_a_run_is_kept_shared_read_in_another_browser_and_revoked(visit: Open) -> None:
    page = visit("/?tokens=24")
    page.get_by_role("button", name=RUN).first.click()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=SLOW)
    page.get_by_role("link", name="Library").click()
    mine = page.locator("[class*=st-key-row-]").first.get_by_role("button")
    expect(mine).to_contain_text("Once upon a time", timeout=SLOW)
    mine.click()
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    page.locator(".player").focus()
    page.keyboard.press("Home")
    for _ in range(3):  # past the round at which it opens, which the address does not name
        page.keyboard.press("ArrowDown")
    page.wait_for_url(re.compile(r"round=3"), wait_until="commit")
    transcript = page.locator(".transcript").inner_text()
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Make a link").click()
    code = page.get_by_test_id("stCode")
    expect(code).to_contain_text("round=3", timeout=SLOW)
    link = code.inner_text().strip()

    other = visit(link)
    expect(other.locator(".transcript")).to_have_text(transcript, timeout=SLOW)
    expect(other.get_by_text("Shared with you by link")).to_be_visible()
    expect(other.get_by_text("Nothing here yet")).to_be_visible()
    for tool in ("Share", "Rename", "Delete"):
        expect(other.get_by_role("button", name=tool, exact=True)).to_have_count(0)

    page.get_by_role("button", name="Revoke the link").click()
    expect(page.get_by_role("button", name="Make a link")).to_be_visible(timeout=SLOW)
    other.reload()
    expect(other.get_by_text("no longer shared")).to_be_visible(timeout=SLOW)
    expect(other.locator(".lane")).to_have_count(0)


def test_an_open_run_is_presented_alone_and_a_link_opens_it(visit: Open) -> None:
    page = visit("/library?run=recorded.welcome&round=3&present=1")
    expect(page.get_by_role("button", name="Leave")).to_be_visible(timeout=SLOW)
    expect(page.locator(".lane").locator("visible=true")).to_have_count(1, timeout=SLOW)
    for gone in ("Library", "Recorded examples"):
        expect(page.get_by_role("heading", name=gone).locator("visible=true")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")  # long before the player has reported where it stands
    expect(page.get_by_role("heading", name="Recorded examples")).to_be_visible(timeout=SLOW)
    expect(page.locator(".where")).to_contain_text("Round 4")
    page.get_by_role("button", name="Teacher's link").click()
    code = page.locator("[data-testid=stCode] code").first
    expect(code).to_contain_text("round=4")
    link = code.inner_text()
    page.goto(link)
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    expect(page.locator(".where")).to_contain_text("Round 4")


def test_files_come_in_as_text_or_are_refused_in_a_sentence(visit: Open, tmp_path: Path) -> None:
    content = json.loads((ROOT / "assets" / "traces" / "draft-model.json").read_text(encoding="utf-8"))
    markup = "<img src=x onerror=alert(1)> **x**"
    content["header"]["prompt"] = markup
    content["header"]["machine"] = markup
    content["rounds"][0]["note"] = {"typed": markup}
    good, bad = tmp_path / "hostile.json", tmp_path / "bad.json"
    good.write_text(json.dumps(content), encoding="utf-8")
    bad.write_text('{"format": "specdec-trace", "version": 9}', encoding="utf-8")
    page = visit()
    page.get_by_role("button", name="Import").click(timeout=SLOW)
    page.locator("input[type=file]").set_input_files([good, bad])
    expect(page.get_by_text("bad.json was not imported. This trace has version 9")).to_be_visible(
        timeout=SLOW
    )
    expect(page.get_by_text("hostile.json was imported")).to_be_visible()
    page.get_by_role("button", name=f"“{markup}”", exact=True).click()
    expect(page.locator(".lane")).to_have_count(1, timeout=SLOW)
    expect(page.locator(".provenance:not(.slowed)")).to_contain_text("imported: <img")
    expect(page.get_by_text("nothing here counts as measured on this server")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


def test_a_phone_in_the_dark_scrolls_in_one_direction_only(visit: Open) -> None:
    page = visit(
        "/library?run=recorded.welcome&q=tree", viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    expect(page.get_by_role("heading", name="Lessons from failure")).to_be_visible(timeout=SLOW)
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    expect(page.get_by_role("textbox", name="Search")).to_have_value("tree")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_opening_a_lower_card_brings_the_page_and_the_keyboard_to_the_run(
    visit: Open, size: tuple[int, int]
) -> None:
    """Catches: a press that seems dead, because the run was loaded at the top and the page stayed among the cards."""
    page = visit("/library?run=recorded.welcome", viewport={"width": size[0], "height": size[1]})
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    card = page.get_by_role("button", name="A wide tree that is mostly wasted")
    card.scroll_into_view_if_needed()
    scrolled = "document.querySelector('[data-testid=stMain]').scrollTop"
    assert page.evaluate(scrolled) > 1_000
    card.click()
    title = page.locator(".st-key-open").get_by_role("heading", name="A wide tree that is mostly wasted")
    expect(title).to_be_in_viewport(timeout=SLOW)
    expect(page.locator(".st-key-open .player")).to_be_focused(timeout=SLOW)
    box = page.get_by_test_id("stHeader").bounding_box()
    assert box is not None and (title.bounding_box() or {})["y"] >= box["y"] + box["height"]
    # Once only: whoever goes back to the cards is left there.
    page.locator(".control.first").click()
    page.wait_for_url(re.compile("round=0"), wait_until="commit")
    card.scroll_into_view_if_needed()
    at = page.evaluate(scrolled)
    row = page.locator("[class*=st-key-row-]").filter(has=card)
    row.get_by_text("Compare", exact=True).click()
    expect(page.get_by_role("button", name="Compare 1 run")).to_be_in_viewport(timeout=SLOW)
    page.wait_for_timeout(1_000)
    assert abs(page.evaluate(scrolled) - at) < 400


def test_share_stands_above_the_player_and_brings_the_place_in_it(visit: Open) -> None:
    page = visit("/?tokens=24")
    page.get_by_role("button", name=RUN).first.click()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=SLOW)
    page.get_by_role("link", name="Library").click()
    page.locator("[class*=st-key-row-]").first.get_by_role("button").click()
    expect(page.locator(".lane")).to_have_count(2, timeout=SLOW)
    player = page.locator(".player").bounding_box()
    for name in ("Share", "Rename", "Delete"):
        tool = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert tool is not None and player is not None and tool["y"] + tool["height"] <= player["y"]
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Make a link").click()
    page.keyboard.press("Escape")
    page.locator(".control.first").click()
    page.wait_for_url(re.compile("round=0"), wait_until="commit")
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_test_id("stCode").filter(has_text="round=0").first).to_be_visible(timeout=SLOW)
