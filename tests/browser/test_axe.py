"""What axe-core, an independent checker, finds against WCAG 2.2 AA: the pages in all their states, the player alone, an
exported page. And what it cannot find: actions that need a mouse, states shown by colour alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from app.export import page as exported
from tests.player import conftest as player
from tests.player.samples import plain_trace, spec_trace
from tests.player.test_mask import random_parents, tree_record

from .axe import check
from .conftest import RUN, STILL, Come, Server, Visitors, expect, until

States = Callable[[Page, str], Iterator[str]]

SLOW = 60_000


@pytest.fixture
def tab(come: Come) -> Callable[[str], Page]:
    """A fresh page, light or dark, without motion: axe would measure colours on their way."""

    def open_one(theme: str) -> Page:
        page = come(viewport={"width": 1440, "height": 1000}, color_scheme=theme)
        page.set_default_timeout(SLOW)
        return page

    return open_one


alone = player.server  # the player's own small server, under a name that leaves `server` to the app's
_serving = player._serving  # which it needs


# The app's ground, from .streamlit/config.toml.
GROUND = """theme => getComputedStyle(document.querySelector(".stApp")).backgroundColor
  === {light: "rgb(251, 250, 248)", dark: "rgb(20, 24, 31)"}[theme]"""


def turned(page: Page, theme: Any) -> None:
    """The page as it stands goes over to the other theme, with what the server and the player draw in it."""
    page.emulate_media(color_scheme=theme)
    until(lambda: bool(page.evaluate(GROUND, theme)), SLOW / 1000, lambda: f"not {theme}: {page.url}")
    page.locator(STILL).wait_for(state="attached")
    for shown in page.locator(".player:visible").all():
        expect(shown).to_have_attribute("data-theme", theme)


def test_the_pages(server: Server, tab: Callable[[str], Page]) -> None:
    """As a visitor finds them who comes for the first time, then in the dark."""
    page = tab("light")
    for address, sign in (
        ("/", ".race-result"),
        ("/compare", "text=Press Run and watch"),
        ("/library", "text=Nothing here yet"),
    ):
        page.goto(server.url + address)
        page.locator(sign).first.wait_for()
        check(page, f"{address}, light")
        turned(page, "dark")
        check(page, f"{address}, dark")
        turned(page, "light")


def lab_states(page: Page, url: str) -> Iterator[str]:
    """Every state of the lab, one after another; the last one leaves a finished run."""
    page.goto(f"{url}/?tokens=17")
    for box, inside in (("Glossary", "Target model"), ("Teacher's link", "A link to this page")):
        page.get_by_role("button", name=box).click()
        page.get_by_role("dialog").get_by_text(inside).first.wait_for()
        yield box
        page.keyboard.press("Escape")
    page.locator(".st-key-more button").first.click()
    page.get_by_role("spinbutton", name="Seed").wait_for()
    yield "settings"
    page.get_by_role("button", name=RUN).first.click()
    page.get_by_text("Target passes saved").first.wait_for()
    page.get_by_role("button", name="Download", exact=True).click()
    page.get_by_role("button", name="Player (HTML)").wait_for()
    yield "download"
    page.goto(f"{page.url}&present=1")
    page.get_by_role("button", name="Leave").wait_for()
    page.locator(".player .lane").last.wait_for()
    yield "presentation"


def compare_states(page: Page, url: str) -> Iterator[str]:
    """Every state of the comparison: its forms, all tabs after a run, a sweep of one prompt."""
    families = "sweep_families=Story&sweep_most=1&sweep_repeats=1"
    page.goto(f"{url}/compare?tokens=17&lane=draft-model&lane=branching;rule=block&{families}")
    page.get_by_text("judges a chain of tokens").wait_for()
    yield "a lane that cannot run"
    page.goto(f"{url}/compare?tokens=17&{families}")
    page.locator(".st-key-lane-B").get_by_role("button", name="Change").click()
    page.locator(".st-key-lane-form").wait_for()
    yield "a lane's form"
    page.locator(".st-key-more button").first.click()
    page.get_by_role("spinbutton", name="Seed").wait_for()
    yield "settings"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ready-made").click()
    page.get_by_text("Lossy rules").wait_for()
    yield "ready-made comparisons"
    page.keyboard.press("Escape")
    page.locator(".st-key-go").get_by_role("button", name=RUN).click()
    page.get_by_text("Why faster, why slower?").wait_for()
    page.get_by_text("Where two lanes guess differently").click()
    page.get_by_text("against", exact=True).wait_for()
    yield "Race"
    for name, ready in (
        ("Table", ".sd-table"),
        ("Charts", ".js-plotly-plot >> nth=6"),
        ("Prompts", ".st-key-sweep_start"),
        ("What if", ".sd-rows:visible"),
        ("Export", "[data-testid=stCode] >> nth=0"),
    ):
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(ready).wait_for()
        if name == "Table":
            for title in ("What the rows mean", "Memory ledger"):
                page.get_by_text(title).click()
            page.locator(".sd-rows").first.wait_for()
        if name == "Prompts":
            yield "a sweep's form"
            page.get_by_role("button", name="Start the sweep").click()
            page.get_by_text(re.compile("All .* measured")).wait_for(timeout=2 * SLOW)
            page.get_by_text("As a table, with intervals").click()
            page.get_by_role("region", name="The sweep's figures").wait_for()
        yield name


def library_states(page: Page, url: str) -> Iterator[str]:
    """Every state of the library of a visitor with two runs of one prompt, of the lab and of the comparison."""
    page.goto(f"{url}/library")
    row = page.locator("[class*=st-key-row-]").first
    row.wait_for()
    page.locator(STILL).wait_for(state="attached")
    if page.get_by_text("Nothing here yet").count():  # the tests of those pages were left out
        for address, over in (("/", "Target passes saved"), ("/compare", "Why faster, why slower?")):
            page.goto(f"{url}{address}?tokens=17")
            page.get_by_role("button", name=RUN).first.click()
            page.get_by_text(over).first.wait_for()
        page.goto(f"{url}/library")
        row.wait_for()
    yield "own runs"
    page.get_by_role("button", name="Import").click()
    page.locator("input[type=file]").wait_for(state="attached")
    yield "import"
    page.keyboard.press("Escape")
    for place in (0, 0):  # the box of a chosen run is another one
        box = page.locator("[class*=st-key-pick-]").filter(has=page.locator("input:not(:checked)")).nth(place)
        box.locator("label").click()
    page.get_by_role("button", name="Compare 2 runs").click()
    page.get_by_text("Side by side:").wait_for()
    page.locator(".player .lane").first.wait_for()
    yield "two side by side"
    page.locator("[class*=st-key-open-]").get_by_role("button").first.click()
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Make a link").wait_for()
    yield "an open run, to be shared"


OPEN = "[data-testid=stPopoverBody], [role=dialog], [role=tabpanel]:not([hidden]), details[open]"


PHONE, DESK = 390, 1440


@pytest.fixture(scope="module")
def visitor(visitors: Visitors) -> Iterator[Page]:
    """One visitor of all pages, whose library has what was run on the others."""
    with visitors.visits() as come:
        page = come(color_scheme="dark")
        page.set_default_timeout(SLOW)
        yield page


@pytest.mark.parametrize("states", [lab_states, compare_states, library_states])
def test_every_state_of_the_pages(server: Server, visitor: Page, states: States) -> None:
    """Reached in the dark on a phone, each state is taken to the desk as it stands, and there into the light. Catches
    also: what closes as the window grows or the theme turns."""

    def look(state: str, theme: str, width: int) -> None:
        assert visitor.locator(OPEN).count() == opened, f"{state}: something closed, {theme}, {width}"
        check(visitor, f"{state}, {theme}, {width}")

    visitor.set_viewport_size({"width": PHONE, "height": 900})
    for state in states(visitor, server.url):
        visitor.locator(STILL).wait_for(state="attached")
        opened = visitor.locator(OPEN).count()
        look(state, "dark", PHONE)
        visitor.set_viewport_size({"width": DESK, "height": 900})
        look(state, "dark", DESK)
        turned(visitor, "light")
        look(state, "light", DESK)
        turned(visitor, "dark")
        visitor.set_viewport_size({"width": PHONE, "height": 900})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_player(alone: player.Server, tab: Callable[[str], Page], theme: str) -> None:
    """A chain with odds on show; a tree of 64 nodes; the help over it."""
    page = tab(theme)
    page.goto(alone.url)
    page.wait_for_function("window.ready")
    if theme == "dark":
        page.evaluate("document.documentElement.style.colorScheme = 'dark'")
    player.open_player(page, cursor={"round": 2, "node": 0})
    assert page.locator(".player").get_attribute("data-theme") == theme
    check(page)
    alone.files["/traces/spec.json"] = json.dumps(tree_record(random_parents(64, 5)))
    player.open_player(page, cursor={"round": 1, "node": 5})
    page.wait_for_function("shadow.querySelectorAll('.tree .chip[data-node]').length >= 64")
    check(page)
    page.get_by_role("button", name="Keys and marks").first.click()
    page.locator("dialog[open]").wait_for()
    check(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_page(tab: Callable[[str], Page], tmp_path: Path, theme: str) -> None:
    file = tmp_path / "run.html"
    file.write_text(exported.make([plain_trace(), spec_trace()]), encoding="utf-8", newline="\n")
    page = tab(theme)
    page.goto(file.as_uri())
    page.locator(".lane").first.wait_for()
    check(page)
    page.locator("summary").first.click()
    check(page)


FAULTS = {
    "button-name": """["aria-label", "title"].forEach((name) =>
        shadow.querySelector(".control.play").removeAttribute(name))""",
    "target-size": """shadow.querySelectorAll(".control, .panel-tab").forEach((one) => one.style.cssText =
        "width: 9px; height: 9px; min-width: 0; min-height: 0; padding: 0; margin: 0")""",
    "color-contrast": "shadow.querySelector('.provenance').style.color = '#ccc'",
    "aria-allowed-attr|aria-valid-attr": "shadow.querySelector('.slider').setAttribute('aria-lable', 'x')",
}


def test_a_fault_is_found(tab: Callable[[str], Page], alone: player.Server) -> None:
    """Catches: a checker that stays outside the shadow root and therefore finds nothing there, and one that takes what
    has changed for what it has seen."""
    page = tab("light")
    page.goto(alone.url)
    page.wait_for_function("window.ready")
    player.open_player(page)
    check(page)
    for rule, fault in FAULTS.items():
        page.evaluate(fault)
        with pytest.raises(AssertionError, match=rule):
            check(page)


def test_the_tab_key_reaches_every_button_and_shows_where_it_is(
    alone: player.Server, tab: Callable[[str], Page]
) -> None:
    """In the order of the page; what only the arrow keys go through has a tabindex of -1 and is not counted."""
    page = tab("light")
    page.goto(alone.url)
    page.wait_for_function("window.ready")
    player.open_player(page, cursor={"round": 2, "node": 0})
    wanted = page.evaluate(
        """() => [...shadow.querySelectorAll('button, select, input, summary, [tabindex="0"]')]
        .filter(one => one.tabIndex >= 0 && one.checkVisibility() && one.getClientRects().length)
        .map((one, at) => { one.tabNumber = at; return at; })"""
    )
    assert len(wanted) > 10
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        number, ring = page.evaluate(
            """() => { const one = shadow.activeElement, { outlineStyle, outlineWidth } = getComputedStyle(one);
            return [one.tabNumber, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2]; }"""
        )
        assert ring, f"no ring around element {number}"
        reached.append(number)
    assert reached == wanted
