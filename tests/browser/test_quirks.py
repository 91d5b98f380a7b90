"""What app/ui/quirks.py works around is still there: a test that fails says what can go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page

from app.theme import CSS
from app.ui import quirks

from .conftest import Visitors, expect, streamlit_alone


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of tests/browser/bare.py."""
    with streamlit_alone(Path(__file__).with_name("bare.py")) as found:
        yield found


@pytest.fixture(scope="module")
def bare(visitors: Visitors, address: str) -> Iterator[Page]:
    """That page in the dark theme; each test leaves it as it was."""
    with visitors.visits() as come:
        page = come(color_scheme="dark", viewport={"width": 1000, "height": 600})
        page.goto(address)
        expect(page.get_by_text("line 99")).to_be_attached()
        yield page


@contextmanager
def dressed(page: Page, css: str) -> Iterator[None]:
    """The page with these styles."""
    added = page.add_style_tag(content=css)
    yield
    added.evaluate("style => style.remove()")


def lightness(page: Page, name: str) -> float:
    """How light a button's text is, from 0 to 1."""
    text = page.get_by_role("button", name=name).locator("p")
    colour = text.evaluate("text => getComputedStyle(text).color")
    parts = [int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3 / 255


def test_text_on_the_dark_theme_s_light_accent_is_white_and_ours_is_dark(bare: Page) -> None:
    """Else `ON_PRIMARY` can go."""
    bare.get_by_role("button", name="Open").click()
    assert lightness(bare, "Primary") > 0.9
    assert lightness(bare, "Inside") > 0.9
    scheme = bare.locator(quirks.SELECTORS["popover"]).evaluate("box => getComputedStyle(box).colorScheme")
    assert scheme == "normal", "with a colour scheme, scheme.js can go"
    with dressed(bare, CSS + quirks.css(quirks.ON_PRIMARY)):
        assert lightness(bare, "Primary") < 0.2
        assert lightness(bare, "Inside") > 0.9
        with dressed(bare, ":root { color-scheme: dark; }"):  # what frame.js does
            assert lightness(bare, "Inside") < 0.2
    bare.keyboard.press("Escape")


def test_highlighted_code_has_colours_of_its_own_and_ours_the_text_s(bare: Page) -> None:
    """Else `LEGIBLE_CODE` can go."""
    colour = "text => getComputedStyle(text).color"
    code = bare.locator(quirks.SELECTORS["code"])
    words = [code.locator(f".token.{kind}").first for kind in ("keyword", "comment")]
    text = code.locator("code").evaluate(colour)
    assert all(word.evaluate(colour) != text for word in words)
    with dressed(bare, quirks.css(quirks.LEGIBLE_CODE)):
        assert all(word.evaluate(colour) == text for word in words)


@pytest.mark.parametrize(
    ("key", "rule"), [("with-nothing", quirks.NO_EMPTY_BOXES), ("with-unseen", quirks.FRAME)]
)
def test_what_draws_nothing_or_has_no_height_leaves_a_gap_and_ours_none(
    bare: Page, key: str, rule: str
) -> None:
    """Else `NO_EMPTY_BOXES` or the first rule of `FRAME` can go."""
    box = bare.locator(f".st-key-{key}")
    before = box.bounding_box()
    with dressed(bare, quirks.css(rule)):
        after = box.bounding_box()
    assert before is not None and after is not None and after["height"] < before["height"] - 4


def test_keys_are_named_where_there_is_no_room_and_ours_are_not(bare: Page) -> None:
    """Else `NO_KEYS_WITHOUT_ROOM` can go; the page is 1000 pixels wide, and then as wide as a phone."""
    key = bare.get_by_role("button", name="Keyed").locator("kbd")
    expect(key).to_be_visible()
    with dressed(bare, quirks.css(quirks.NO_KEYS_WITHOUT_ROOM)):
        expect(key).to_be_hidden()
    bare.set_viewport_size({"width": 390, "height": 600})
    bare.get_by_role("textbox", name="Words").fill("a")
    hint = bare.locator(quirks.SELECTORS["instructions"])
    expect(hint).to_be_visible()
    with dressed(bare, quirks.css(quirks.NO_KEYS_WITHOUT_ROOM)):
        expect(hint).to_be_hidden()
    bare.get_by_role("textbox", name="Words").fill("")
    bare.set_viewport_size({"width": 1000, "height": 600})


def test_what_is_chosen_has_no_sign_of_its_own_and_ours_has_one(bare: Page) -> None:
    """Else `SIGNS` can go."""
    sign = "chosen => getComputedStyle(chosen, '::before').content"
    chosen = [bare.locator(quirks.SELECTORS[name]) for name in ("chosen-pill", "chosen-segment")]
    for each, text in zip(chosen, "ac", strict=True):
        expect(each).to_have_count(1)
        expect(each).to_have_text(text)
        assert each.evaluate(sign) in ("none", "normal")
    with dressed(bare, quirks.css(quirks.SIGNS)):
        assert all("✓" in each.evaluate(sign) for each in chosen)


def test_a_button_has_no_outline_for_the_keyboard_and_ours_has_one(bare: Page) -> None:
    """Else `FOCUS` can go."""
    outline = """() => {
      const there = document.querySelector('[data-testid="stApp"] button');
      there.focus();
      return getComputedStyle(there).outlineStyle;
    }"""
    bare.keyboard.press("Tab")  # from now on the focus is the keyboard's
    assert bare.evaluate(outline) == "none"
    with dressed(bare, ":root { --accent: blue; }" + quirks.css(quirks.FOCUS)):
        assert bare.evaluate(outline) == "solid"


def test_a_finger_that_scrolls_over_a_slider_sets_it_and_with_ours_only_the_knob_does(bare: Page) -> None:
    """Else `NO_SWIPES` can go."""
    slider = bare.locator(quirks.SELECTORS["slider"])
    slider.scroll_into_view_if_needed()
    knob, value = slider.locator("> [data-rac] > [data-rac]"), slider.locator("input[type=range]")
    box = slider.bounding_box()
    assert box is not None
    line = box["y"] + box["height"] - 6
    touches = bare.context.new_cdp_session(bare)
    touches.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def swipe(x: float, y: float, right: float, up: float) -> None:
        touches.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for part in (0.25, 0.5, 0.75, 1):
            to = {"x": x + part * right, "y": y - part * up}
            touches.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [to]})
        touches.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        bare.wait_for_timeout(300)

    with dressed(bare, quirks.css(quirks.NO_SWIPES).replace("(pointer: coarse)", "all")):
        swipe(box["x"] + 300, line, 0, 60)
        expect(value).to_have_value("0")
        slider.scroll_into_view_if_needed()
        at = knob.bounding_box()
        assert at is not None
        swipe(
            at["x"] + at["width"] / 2 + 10, at["y"] + at["height"] / 2, 120, 0
        )  # beside it, as fingers are wide
        assert int(value.input_value()) > 5
    before = value.input_value()
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    swipe(box["x"] + 600, box["y"] + box["height"] - 6, 0, 60)
    assert int(value.input_value()) > int(before), "also without ours"
    touches.send("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_page_that_takes_another_s_place_stays_where_that_was_scrolled_to(bare: Page) -> None:
    """Else `toTop` in frame.js can go."""
    before = int(re.findall(r"\d+", bare.get_by_text("line 99").inner_text())[0])
    bare.get_by_role("button", name="Turn").click()
    expect(bare.get_by_text(f"place {before + 1}, line 99")).to_be_attached()
    expect(bare.get_by_text(f"place {before}, line")).to_have_count(0)
    assert bare.locator(quirks.SELECTORS["main"]).evaluate("main => main.scrollTop") > 500


def test_a_component_is_drawn_in_a_shadow_root_which_the_page_cannot_look_into(bare: Page) -> None:
    """Else `playerIn` in frame.js need not look for it there."""
    expect(bare.locator(".inside")).to_be_attached()  # Playwright looks into shadow roots
    assert bare.evaluate("document.querySelector('.inside')") is None
    assert bare.evaluate(
        "[...document.querySelectorAll('*')].some(each => each.shadowRoot?.querySelector('.inside'))"
    )


def test_the_menu_of_a_phone_stays_over_the_page_it_led_to_and_ours_does_not(
    open_page: Callable[..., Page],
) -> None:
    """Else `closeMenu` in frame.js can go."""
    page = open_page("/lab", viewport={"width": 390, "height": 844})
    menu = page.locator(quirks.SELECTORS["sidebar"])
    for done, name, closed in (("compare", "Compare", "false"), ("", "Course", "true")):
        if menu.get_attribute("data-collapsed") != "false":
            page.locator('[data-testid="stExpandSidebarButton"]').first.click()
        if done:  # as if it had been closed already
            page.evaluate("name => { document.documentElement.dataset.page = name; }", done)
        menu.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name).first).to_be_attached()
        page.wait_for_timeout(1_000)
        expect(menu).to_have_attribute("data-collapsed", closed)
