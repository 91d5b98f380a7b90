"""The first screen: the recorded race, plays once, with a form of one line."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from .conftest import Come, Server, Sight, expect, until

WORDS, CONTROLS, SHIFT = 120, 15, 0.05
COUNT = """() => {
  const shown = (part) => {
    const { width, top, bottom } = part.getBoundingClientRect();
    return width > 0 && top < innerHeight && bottom > 0 && !part.closest("script, style, noscript, [translate=no]");
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) {
    const part = walker.currentNode.parentElement;
    if (shown(part) && !part.closest("[data-testid=stIconMaterial]")) texts.push(walker.currentNode.data);
  }
  const controls = [...document.querySelectorAll("a, button, input, textarea, select")].filter(shown);
  return [texts.join("").split(/\\s+/).length, controls.length];
}"""
SHIFTS = """() => {
  globalThis.shifted = 0;
  new PerformanceObserver((found) => found.getEntries().forEach((one) => (globalThis.shifted += one.value)))
    .observe({ type: "layout-shift", buffered: true });
}"""


def first_screen(come: Come, server: Server, complaints: Sight, **options: Any) -> Page:
    page = come(**options)
    complaints.watch(page)
    page.add_init_script(f"({SHIFTS})()")
    page.goto(server.url)
    page.locator(".race-result").wait_for()
    return page


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768)])
def test_the_first_screen_has_few_words_and_nothing_on_it_jumps(
    come: Come, server: Server, complaints: Sight, size: tuple[int, int]
) -> None:
    """Catches: a form that fills the screen; a finish below the fold; parts that come late and push others down."""
    page = first_screen(come, server, complaints, viewport={"width": size[0], "height": size[1]})
    for part in (".st-key-go >> nth=0", ".race .track >> nth=1", ".race-result", ".st-key-step button"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    words, controls = page.evaluate(COUNT)
    assert words <= WORDS and controls <= CONTROLS, (words, controls)
    page.wait_for_timeout(1_000)
    assert page.evaluate("globalThis.shifted") <= SHIFT


def test_nothing_jumps_on_a_phone(come: Come, server: Server, complaints: Sight) -> None:
    """Catches: a form whose buttons need another line once they have come; a style that comes after the page."""
    page = first_screen(come, server, complaints, viewport={"width": 390, "height": 844})
    page.wait_for_timeout(1_000)
    assert page.evaluate("globalThis.shifted") <= SHIFT


def test_the_race_plays_once_and_rests_on_its_finish(come: Come, server: Server, complaints: Sight) -> None:
    """Catches: a race that rewinds; a finish that is said before it has happened."""
    page = first_screen(come, server, complaints, reduced_motion="no-preference")
    result = page.locator(".race-result")
    opacity = "part => Number(getComputedStyle(part).opacity)"
    assert result.evaluate(opacity) == 0
    until(lambda: result.evaluate(opacity) == 1, 15)
    playing = (
        "part => part.getAnimations({ subtree: true }).filter((one) => one.playState === 'running').length"
    )
    until(lambda: page.locator(".race").evaluate(playing) == 0, 5)
    page.locator(".st-key-step button").click()
    expect(page.locator(".player .where")).to_contain_text("Round")
    expect(page.locator(".race")).to_have_count(0)
