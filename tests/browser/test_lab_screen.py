"""What the lab's first screen holds, and a popover on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from PIL import ImageColor
from playwright.sync_api import Page

from app.theme import TEXT

from .conftest import RUN, expect, until

Open = Callable[..., Page]


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_the_sentence_is_in_sight_before_the_first_run(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page("/?proposer=medusa", viewport={"width": size[0], "height": size[1]})
    for part in (".lane >> nth=0", ".lane.leads", ".transcript"):
        expect(page.locator(part)).to_be_in_viewport()
    line = page.locator(".transcript").evaluate(
        "part => part.getBoundingClientRect().top + parseFloat(getComputedStyle(part).lineHeight)"
    )
    assert line <= size[1]


DECISION = """(panel, parts) => {
  const box = panel.getBoundingClientRect();
  const found = parts.map((name) => panel.querySelector(name)).map((part) => part?.getBoundingClientRect());
  return [box.bottom <= innerHeight, ...found.map((part) => part && part.top >= box.top && part.bottom <= box.bottom)];
}"""


@pytest.mark.parametrize("proposer", ["draft-model", "eagle"])
def test_the_decision_is_whole_on_the_first_screen(open_page: Open, proposer: str) -> None:
    """Catches: a panel that is cut below its heading, so that a visitor sees a verdict and not its reason."""
    page = open_page(f"/?proposer={proposer}&round=3", viewport={"width": 1440, "height": 900})
    expect(page.locator(".odds .choice")).to_be_visible()
    parts = [".odds-title", ".choice dl", ".compares"]
    until(lambda: page.locator(".odds").evaluate(DECISION, parts) == [True] * 4, 10)


def test_escape_closes_the_help_and_leaves_the_presentation_only_then(open_page: Open) -> None:
    """Catches: a presentation that ends in front of a class, with the help still over the page."""
    page = open_page("/?proposer=eagle", viewport={"width": 1280, "height": 720})
    page.goto(f"{page.url}&present=1")
    page.locator(".lane.leads").wait_for()
    page.keyboard.press("?")
    help_box = page.locator("dialog.help-box")
    expect(help_box).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(help_box).not_to_have_attribute("open", "")
    assert "present=1" in page.url and page.locator(".st-key-leave").is_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".st-key-desk")).to_be_visible()
    assert "present" not in page.url


def test_a_phone_names_no_keys(open_page: Open) -> None:
    """Catches: Run with “Ctrl + Enter” where there is no keyboard."""
    page = open_page(viewport={"width": 390, "height": 844})
    assert page.get_by_test_id("stMain").locator("kbd").count() > 0, "so there is something to hide"
    expect(page.get_by_test_id("stMain").locator("kbd:visible")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_prompt_its_run_and_the_race_are_on_the_first_screen(
    open_page: Open, scheme: str
) -> None:
    """Catches: a prompt two screens below its Run; a race below the fold."""
    page = open_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    prompt, run = (
        page.get_by_role("textbox", name="Prompt"),
        page.get_by_role("button", name="Run", exact=True),
    )
    for part in (prompt, run, *page.locator(".race .track").all()):
        expect(part).to_be_in_viewport(ratio=0.99)
    one, other = prompt.bounding_box(), run.bounding_box()
    assert one and other and 0 <= other["y"] - one["y"] - one["height"] < 32


def test_popover_and_charts_follow_the_system_s_colour_scheme(open_page: Open) -> None:
    """Catches: a primary button, or a chart's words, whose text stays that of the other theme."""
    page = open_page("/?tokens=8", color_scheme="light")
    page.get_by_role("button", name=RUN).click()
    expect(page.get_by_text("Target passes saved")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Teacher's link").click()
    words = page.locator('[data-testid="stPopoverBody"] button[kind^="primary"] p').first
    expect(words).to_be_visible()
    tick = page.locator(".js-plotly-plot .xtick text").first
    colours = {"light": ("rgb(251, 250, 248)", TEXT.light), "dark": ("rgb(20, 24, 31)", TEXT.dark)}
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        of_button, of_chart = colours[scheme]
        expect(words).to_have_css("color", of_button)
        expect(tick).to_have_css("fill", f"rgb{ImageColor.getrgb(of_chart)}")


PLACE = """() => {
  const at = document.activeElement;
  if (!at || at === document.body || at.shadowRoot) return null; // the player has marks of its own
  const marked = (element) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2) || boxShadow !== "none";
  };
  const seen = [at, at.closest("label"), at.parentElement].filter(Boolean).some(marked);
  return [seen, `${at.tagName} ${at.getAttribute("aria-label") ?? at.textContent}`.slice(0, 60)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_sees_where_the_keyboard_is(open_page: Open, scheme: str) -> None:
    """Catches: a link or a box that shows by a paler ground alone that it has the keyboard."""
    page = open_page("/", color_scheme=scheme)
    found = []
    for _ in range(30):
        page.keyboard.press("Tab")
        found.append(page.evaluate(PLACE))
    places = [place for place in found if place]
    assert len(places) > 10
    assert [name for seen, name in places if not seen] == []


@pytest.mark.parametrize("width", [1024, 1280, 390])
def test_the_buttons_beside_run_do_not_lie_on_each_other(open_page: Open, width: int) -> None:
    page = open_page("/", viewport={"width": width, "height": 768})
    boxes = [
        page.get_by_role("button", name=name).first.bounding_box() for name in (RUN, "Examples", "Settings")
    ]
    for one, other in itertools.combinations(filter(None, boxes), 2):
        beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        below = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
        assert beside or below, (one, other)
    assert all(boxes)
