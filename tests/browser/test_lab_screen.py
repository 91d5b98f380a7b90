"""What the lab's first screen holds, and a popover on it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from PIL import ImageColor
from playwright.sync_api import Locator, Page

from app.choosing import presets
from app.theme import TEXT

from .conftest import RUN, expect, until

Open = Callable[..., Page]


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_the_sentence_is_in_sight_before_the_first_run(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page("/?proposer=draft-model", viewport={"width": size[0], "height": size[1]})
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
    page = open_page(f"/?proposer={proposer}", viewport={"width": 1440, "height": 900})
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


MOST = 9  # lines
IN_SIGHT = """box => {
  const { lineHeight, paddingTop } = getComputedStyle(box);
  return [box.scrollHeight - box.clientHeight, (box.clientHeight - parseFloat(paddingTop)) / parseFloat(lineHeight)];
}"""


def test_the_prompt_box_shows_whole_programs(open_page: Open) -> None:
    """Catches: two and a half lines of a program of seven, as a box of one height shows them."""
    page = open_page("/", viewport={"width": 1440, "height": 900})
    code = next(family for family in presets.families() if family.name == "code")
    for preset in [item for item in code.presets if item.text.count("\n") >= 3][:4]:
        page.goto(f"{page.url.partition('?')[0]}?preset={preset.id}")
        box = page.get_by_label("Prompt", exact=True)
        expect(box).to_have_value(preset.text)
        long = preset.text.count("\n") + 1 > MOST

        def shown(box: Locator = box, long: bool = long) -> bool:
            hidden, lines = box.evaluate(IN_SIGHT)
            return bool(lines >= MOST if long else hidden <= 1)

        until(shown, 10, lambda box=box: str(box.evaluate(IN_SIGHT)))  # type: ignore[misc]


def test_a_phone_names_no_keys(open_page: Open) -> None:
    """Catches: Run with “Ctrl + Enter” where there is no keyboard."""
    page = open_page(viewport={"width": 390, "height": 844})
    assert page.get_by_test_id("stMain").locator("kbd").count() > 0, "so there is something to hide"
    expect(page.get_by_test_id("stMain").locator("kbd:visible")).to_have_count(0)


WORDS = r"[^\W\d_][\w'’-]*"
BEFORE = 123  # as this test counts them on the page as it was on 2026-11-21 (66bb9d5)


def test_the_page_before_a_run_has_half_the_words_it_had(open_page: Open) -> None:
    """All visible words of the page's body but the prompt, signs drawn by name, and the recorded race itself."""
    page = open_page("/", viewport={"width": 1440, "height": 900})
    expect(page.locator(".lane.leads")).to_be_visible()
    text = page.get_by_test_id("stMain").evaluate("""main => {
      main.querySelectorAll("textarea, [data-testid=stIconMaterial]").forEach((part) => part.remove());
      return main.innerText;
    }""")
    words = re.findall(WORDS, text)
    assert 40 < len(words) <= BEFORE / 2, words


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_run_and_the_race_are_on_the_first_screen(open_page: Open, scheme: str) -> None:
    """Catches: Run below the recorded race, two screens down; a bar that covers what has the focus."""
    page = open_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    run = page.get_by_role("button", name="Run", exact=True)
    for part in (run, page.locator(".lane.leads"), page.locator(".transcript")):
        expect(part).to_be_in_viewport(ratio=0.99)
    top = (run.bounding_box() or {})["y"]
    page.locator(".player").evaluate("player => player.focus()")
    for _ in range(40):
        page.keyboard.press("Tab")
        place = page.evaluate(FOCUSED)
        if place and not place[2]:
            assert place[0] < top, place
    assert (run.bounding_box() or {})["y"] == top  # wherever the page was scrolled


def test_run_and_stop_are_side_by_side_on_a_phone(open_page: Open) -> None:
    page = open_page(viewport={"width": 390, "height": 844})

    def beside() -> bool:
        run, stop = (
            page.get_by_role("button", name=name, exact=True).bounding_box() for name in ("Run", "Stop")
        )
        assert run is not None and stop is not None
        return run["y"] == stop["y"] and 0 < stop["x"] - run["x"] - run["width"] < 32

    until(beside, 10)  # what is above them may still be growing


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


# Where the part that has the focus begins and ends, and whether it is in the bar of Run.
FOCUSED = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body) return null;
  const { top, bottom } = at.getBoundingClientRect();
  return [top, bottom, at.closest(".st-key-part-run") !== null];
}"""
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
    assert len(places) > 15
    assert [name for seen, name in places if not seen] == []


@pytest.mark.parametrize("width", [1024, 1280, 390])
def test_the_buttons_beside_run_do_not_lie_on_each_other(open_page: Open, width: int) -> None:
    page = open_page("/", viewport={"width": width, "height": 768})
    boxes = [
        page.get_by_role("button", name=name).first.bounding_box() for name in (RUN, "Stop", "More settings")
    ]
    for one, other in itertools.combinations(filter(None, boxes), 2):
        beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        below = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
        assert beside or below, (one, other)
    assert all(boxes)
