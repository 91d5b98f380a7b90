"""What axe-core, an independent checker, finds against WCAG 2.2 AA: the pages in all their states, the player alone, an
exported page. And what it cannot find: actions that need a mouse, states shown by colour alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from app.export import page as exported
from tests.player import conftest as player
from tests.player.samples import plain_trace, spec_trace
from tests.player.test_mask import random_parents, tree_record

from .conftest import Server

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SLOW = 60_000
STILL = "[data-test-script-state=notRunning]"  # Streamlit's page when no script of it runs
# A text's contrast follows from its own look, from the grounds it stands on, its own and its ancestors', and from the
# grounds of others that lie across it. LOOKS names all that for each text; of texts that are alike one is measured,
# once per session. Contrast takes most of axe's time, and most of a page is the same from one state to the next.
LOOKS = """() => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...within(one.shadowRoot)] : [one]);
  const over = (one) => one.assignedSlot ?? one.parentElement ?? one.getRootNode().host;
  const known = new Map();
  const ground = (one) => {
    if (!one) return "";
    if (!known.has(one)) {
      const style = getComputedStyle(one);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.visibility].join();
      const bare = own === "rgba(0, 0, 0, 0),none,1,none,visible";
      known.set(one, bare ? ground(over(one)) : `${ground(over(one))}/${own}`);
    }
    return known.get(one);
  };
  const all = within(document.body).map((one) => [one, one.getBoundingClientRect()])
    .filter(([one, { width, height }]) => width && height && one.checkVisibility());
  const grounds = all.filter(([one]) => ground(one) !== ground(over(one)));
  const across = (text, { left, right, top, bottom }) => {
    const mine = new Set();
    for (let one = text; one; one = over(one)) mine.add(one);
    return grounds.filter(([one, box]) => box.left < right && left < box.right && box.top < bottom && top < box.bottom
      && !mine.has(one)).map(([one, box]) => {
        const { position, zIndex } = getComputedStyle(one);
        const whole = box.left <= left && right <= box.right && box.top <= top && bottom <= box.bottom;
        const behind = one.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
        return [ground(one), position, zIndex, whole, behind].join();
      });
  };
  const texts = all.filter(([one]) => one.matches("input, select, textarea")
    || [...one.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim()));
  window.looked = texts.map(([one]) => one);
  return texts.map(([one, box]) => {
    const { color, fill, fontSize, fontWeight, textShadow } = getComputedStyle(one);
    const others = [...new Set(across(one, box))].sort();
    const own = [one.matches("input, select, textarea"), color, fill, fontSize, fontWeight, textShadow];
    return [...own, ground(one), ...others].join("|");
  });
}"""
# axe looks into open shadow roots by itself; an element in one is named by a path of several selectors. It gives up on
# contrast, or passes over it, where a text lies in a frame that scrolls, as a long lane and Streamlit's whole page do:
# for that rule all frames are unfolded, and made as high as what they hold, so that it stays on their own ground.
# `mouse`: whatever shows the hand of something to be clicked has, holds or lies within something that takes keys.
CHECK = """async ([looks, enough, colours]) => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...within(one.shadowRoot)] : [one]);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const rules = { "color-contrast": { enabled: false } };
  const resultTypes = ["violations", "incomplete"]; // what passed is only named: nodes take long to describe
  const all = colours ? []
    : [await axe.run(document, { runOnly: { type: "tag", values: tags }, rules, resultTypes })];
  const measured = new Set(enough);
  const left = () => looks.map((look, at) => [look, window.looked[at]]).filter(([look]) => !measured.has(look));
  const first = (texts) => texts.filter(([look], at) => texts.findIndex(([other]) => other === look) === at);
  const contrast = async (texts) => {
    if (!texts.length) return;
    const runOnly = { type: "rule", values: ["color-contrast"] };
    const result = await axe.run({ include: texts.map(([, one]) => one) }, { runOnly, elementRef: true });
    const passed = new Set(result.passes.flatMap(({ nodes }) => nodes.map(({ element }) => element)));
    looks.forEach((look, at) => { if (passed.has(window.looked[at])) measured.add(look); });
    all.push(result);
  };
  const frames = !left().length ? [] : within(document).filter((one) => getComputedStyle(one).overflow !== "visible"
    && one.clientWidth > 2 && one.clientHeight > 2)
    .map((one) => [one, one.getAttribute("style"), one.scrollHeight > one.clientHeight]);
  for (const [one, , long] of frames)
    one.style.cssText += `;overflow:visible!important${long ? ";max-height:none!important;height:auto" : ""}`;
  for (const [one] of frames.toReversed())
    if (one.scrollHeight > one.clientHeight) one.style.minHeight = `${one.scrollHeight}px`;
  await contrast(first(left()));
  await contrast(left()); // which axe let pass unmeasured, such as one letter: each of those that look like it
  for (const [one, style] of frames) style === null ? one.removeAttribute("style") : one.setAttribute("style", style);
  const said = (results) => results.flatMap(({ id, nodes }) => nodes
    .map((node) => `${id}: ${JSON.stringify(node.target)} ${node.html.slice(0, 240)} ${node.failureSummary}`));
  const keys = "a[href], button, input, select, textarea, summary, label, [tabindex], [role=option], [role=menuitem]";
  return {
    measured: [...measured],
    passed: all.flatMap(({ passes }) => passes.map(({ id }) => id)),
    found: said(all.flatMap(({ violations }) => violations)),
    broken: said(all.flatMap(({ incomplete }) => incomplete)).filter((one) => one.includes("Axe encountered an error")),
    mouse: within(document).filter((one) => getComputedStyle(one).cursor === "pointer" && one.checkVisibility()
      && one.getClientRects().length && !one.closest(keys) && !one.querySelector(keys))
      .map((one) => one.outerHTML.slice(0, 200)),
  };
}"""
MOVED = """async () => {
  const passing = document.getAnimations().filter((one) => one.effect?.getComputedTiming().iterations !== Infinity);
  await Promise.all(passing.map((one) => one.finished.catch(() => null)));
  return typeof axe !== "undefined";
}"""
_measured: set[str] = set()  # looks with enough contrast


def check(page: Page, state: str = "", colours: bool = False) -> None:
    """Assert that the page as it stands breaks no rule; Streamlit's own elements are held to it too.

    With `colours` only what a theme can change: for a state that was held to the other rules in the other theme.
    """
    page.mouse.move(1, 1)  # away from what shows something while it is pointed at
    if not page.evaluate(MOVED):
        page.evaluate(AXE)  # by the debugger, which no policy of the page forbids
    looks = page.evaluate(LOOKS)
    known = sorted(_measured.intersection(looks))
    result = page.evaluate(CHECK, [looks, known, colours])
    assert result["broken"] == [], "\n".join([state, *result["broken"]])
    assert result["mouse"] == [], f"{state}: these take a click and no key: {result['mouse']}"
    assert colours or "button-name" in result["passed"], f"{state}: axe looked at nothing"
    assert result["measured"], f"{state}: axe measured no contrast"
    assert result["found"] == [], "\n".join([state, *result["found"]])
    _measured.update(result["measured"])


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[[str], Page]]:
    """A fresh page, light or dark, without motion: axe would measure colours on their way."""
    opened: list[Page] = []

    def open_one(theme: str) -> Page:
        size: Any = {"width": 1440, "height": 1000}
        opened.append(browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce"))
        opened[-1].set_default_timeout(SLOW)
        return opened[-1]

    yield open_one
    for page in opened:
        page.close()


alone = player.server  # the player's own small server, under a name that leaves `server` to the app's
_serving = player._serving  # which it needs


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages(server: Server, tab: Callable[[str], Page], theme: str) -> None:
    """As a visitor finds them who comes for the first time."""
    page = tab(theme)
    for address, text in (
        ("/", "faster than Plain decoding"),
        ("/compare", "Press Run and watch"),
        ("/library", "Nothing here yet"),
    ):
        page.goto(server.url + address)
        page.get_by_text(text).first.wait_for()
        check(page, f"{address}, {theme}", colours=theme == "dark")


def lab_states(page: Page, url: str) -> Iterator[str]:
    """Every state of the lab, one after another; the last one leaves a finished run."""
    page.goto(f"{url}/?tokens=17")
    for box, inside in (("Glossary", "Target model"), ("Teacher's link", "A link with less")):
        page.get_by_role("button", name=box).click()
        page.get_by_role("dialog").get_by_text(inside).first.wait_for()
        yield box
        page.keyboard.press("Escape")
    page.get_by_text("More settings").click()
    page.get_by_role("spinbutton", name="Seed").wait_for()
    yield "settings"
    page.get_by_role("button", name="Run").first.click()
    page.get_by_text("Target passes saved").first.wait_for()
    page.get_by_role("button", name="Download", exact=True).click()
    page.get_by_text("The whole run").wait_for()
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
    page.get_by_text("Models, text and seed").click()
    page.get_by_role("spinbutton", name="Seed").wait_for()
    yield "a lane's form"
    page.get_by_role("button", name="Ready-made").click()
    page.get_by_text("Lossy rules").wait_for()
    yield "ready-made comparisons"
    page.keyboard.press("Escape")
    page.locator(".st-key-go").get_by_role("button", name="Run").click()
    page.get_by_text("Why faster, why slower?").wait_for()
    page.get_by_text("Where two lanes guess differently").click()
    page.get_by_text("against", exact=True).wait_for()
    yield "Race"
    for name, ready in (
        ("Table", ".sd-table"),
        ("Charts", ".js-plotly-plot >> nth=6"),
        ("Prompts", ".st-key-sweep_start"),
        ("What if", ".sd-rows"),
        ("Take along", "[data-testid=stCode] >> nth=0"),
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
            page.get_by_text(re.compile("All .* measured")).wait_for()
            page.get_by_text("As a table, with intervals").click()
            page.get_by_role("region", name="The sweep's figures").wait_for()
        yield name


def library_states(page: Page, url: str) -> Iterator[str]:
    """Every state of the library of a visitor with two runs of one prompt, of the lab and of the comparison."""
    page.goto(f"{url}/library")
    page.locator("[class*=st-key-row-]").first.wait_for()
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
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Make a link").wait_for()
    yield "an open run, to be shared"


OPEN = "[data-testid=stPopoverBody], [role=dialog], [role=tabpanel]:not([hidden]), details[open]"


@pytest.mark.parametrize(("theme", "widths"), [("light", [1440]), ("dark", [390, 1440])])
def test_every_state_of_the_pages(
    server: Server, tab: Callable[[str], Page], theme: str, widths: list[int]
) -> None:
    """In the light on a desk; in the dark on a phone, from where each state is also taken to the desk as it stands."""
    page = tab(theme)
    for states in (lab_states, compare_states, library_states):
        page.set_viewport_size({"width": widths[0], "height": 900})
        for state in states(page, server.url):
            page.locator(STILL).wait_for(state="attached")
            opened = page.locator(OPEN).count()
            check(page, f"{state}, {theme}, {widths[0]}")
            for width in widths[1:]:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.locator(OPEN).count() == opened, f"{state}: something closed as the window grew"
                check(page, f"{state}, {theme}, {width}", colours=True)
                page.set_viewport_size({"width": widths[0], "height": 900})


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


def test_a_fault_is_found(browser: Browser, alone: player.Server) -> None:
    """Catches: a checker that stays outside the shadow root and therefore finds nothing there."""
    page = browser.new_page()
    page.goto(alone.url)
    page.wait_for_function("window.ready")
    player.open_player(page)
    page.evaluate("shadow.querySelector('.control.play').removeAttribute('aria-label')")
    page.evaluate("shadow.querySelector('.control.play').removeAttribute('title')")
    with pytest.raises(AssertionError, match="button-name"):
        check(page)
    page.close()


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
