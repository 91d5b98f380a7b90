"""The player for an audience: one lane, one sentence and one view on one screen, in large type."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from app.ui import presenter, quirks
from tests.player.conftest import FRAME, Server, data, open_player
from tests.player.samples import plain_trace, spec_trace
from tests.player.test_screen import chain
from tests.player.test_tree import random_parents, tree_record

pytestmark = pytest.mark.browser

# As on a page of the app: what the page says of its edge and type, and its way out before all else.
PAGE = f"body {{ padding: 0 !important; }}\n{presenter.TYPE}\n{quirks.css(presenter.CHROME)}"
LEAVE = """() => {
  const box = document.createElement("div");
  box.className = "st-key-presenter";
  box.innerHTML = '<div class="st-key-leave"><button>Leave</button></div>';
  document.body.prepend(box);
}"""
PICTURES = {"tree": ".tree", "mask": ".mask-box", "odds": ".odds .chart"}


@pytest.fixture(params=[(1024, 768), (1440, 900), (1280, 720), (1920, 1080)])
def screen(page: Page, request: pytest.FixtureRequest) -> Page:
    """A page as a presentation dresses it."""
    page.set_viewport_size(dict(zip(("width", "height"), request.param, strict=True)))
    page.evaluate(LEAVE)
    page.add_style_tag(content=PAGE)
    return page


@pytest.mark.parametrize("view", PICTURES)
def test_the_chosen_view_is_seen_without_scrolling(screen: Page, view: str) -> None:
    """Catches: a picture below the fold, and a way out that lies over something."""
    open_player(screen, present=True, cursor={"round": 3, "node": None, "view": view})
    assert screen.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    shown = screen.evaluate(
        """picture => {
          const [one, all] = [picture, ".panels"].map((name) => shadow.querySelector(name).getBoundingClientRect());
          return [Math.max(one.top, all.top), Math.min(one.bottom, all.bottom, innerHeight), one.height];
        }""",
        PICTURES[view],
    )
    assert shown[1] - shown[0] >= 0.7 * shown[2]
    way_out = screen.locator(".st-key-leave").bounding_box()
    player = screen.locator(".player").bounding_box()
    assert way_out is not None and player is not None
    assert way_out["y"] + way_out["height"] <= player["y"]


def test_a_player_below_text_has_the_whole_screen_when_it_is_stepped(screen: Page) -> None:
    """Catches: room left above it for the head of a page, which a presentation has not, so that its end is cut off."""
    open_player(screen, present=True, cursor={"round": 3, "node": None})
    for place in ("afterbegin", "beforeend"):
        screen.evaluate(
            f"document.body.insertAdjacentHTML('{place}', '<div style=\"block-size: 60vh\"></div>')"
        )
    screen.locator(".player").focus()
    screen.evaluate("scrollTo(0, 0)")
    screen.keyboard.press("ArrowRight")
    expect(screen.locator(".player")).to_be_in_viewport(ratio=0.999)


MASK = """() => {
  const box = shadow.querySelector(".mask-box");
  const words = [...shadow.querySelectorAll(".mask-word")].map((word) => word.getBoundingClientRect().height);
  const { bottom } = shadow.querySelector(".player").getBoundingClientRect();
  const hidden = Math.max(box.scrollHeight - box.clientHeight, box.scrollWidth - box.clientWidth);
  return [hidden, bottom, Math.min(...words)];
}"""


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
@pytest.mark.parametrize("shape", ["chain of 4", "chain of 8", "tree of 16"])
def test_on_a_projector_the_whole_mask_is_seen_at_once(
    page: Page, server: Server, size: tuple[int, int], shape: str
) -> None:
    """Catches: a mask or a KV cache that scrolls inside its box, rows without their words, a frame that is cut off."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate(LEAVE)
    page.add_style_tag(content=PAGE)
    record = tree_record(random_parents(16, 3)) if shape.startswith("tree") else chain(int(shape.split()[-1]))
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, present=True, cursor={"round": 1, "node": None, "view": "mask"})
    expect(page.locator(".mask-box")).to_be_visible()
    page.evaluate(FRAME)
    hidden, bottom, least = page.evaluate(MASK)
    assert hidden <= 1 and bottom <= size[1] and least > 10


def test_the_focus_frame_keeps_clear_of_the_text(screen: Page) -> None:
    open_player(screen, present=True)
    expect(screen.locator(".player")).to_be_focused()
    gaps = screen.evaluate(
        """() => {
          const frame = shadow.querySelector(".player").getBoundingClientRect();
          return [...shadow.querySelectorAll(".where, .transcript, .lane, .panel-tab, .panel")]
            .filter((part) => part.checkVisibility())
            .map((part) => part.getBoundingClientRect())
            .map((part) => Math.min(part.left - frame.left, frame.right - part.right));
        }"""
    )
    assert len(gaps) >= 6 and min(gaps) >= 8


def test_the_speedup_is_there_with_where_it_comes_from(screen: Page) -> None:
    open_player(screen, present=True)
    ratio = spec_trace().stats.tokens_per_second / plain_trace().stats.tokens_per_second
    expect(screen.locator(".speedup-value")).to_have_text(f"{ratio:.2f}×")
    expect(screen.locator(".speedup-value")).to_be_visible()
    expect(screen.locator(".provenance:not(.slowed)")).to_be_visible()


def test_the_newest_token_is_in_sight_when_the_page_turns_into_a_presentation(
    page: Page, server: Server
) -> None:
    """Catches: a lane that stays where its text ended before the type grew."""
    open_player(page)
    page.evaluate("data => player.update(data)", data(present=True))
    page.add_style_tag(content=PAGE)
    page.set_viewport_size({"width": 1024, "height": 768})
    page.wait_for_function(
        """() => {
          const pane = shadow.querySelector(".leads .pane").getBoundingClientRect();
          const last = [...shadow.querySelectorAll(".leads .tok")].at(-1).getBoundingClientRect();
          return last.width > 0 && last.top >= pane.top && last.bottom <= pane.bottom;
        }"""
    )
