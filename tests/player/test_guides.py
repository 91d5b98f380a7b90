"""Each view says in one visible sentence how to read it, and no more than the moment knows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.player.conftest import Server, open_player
from tests.player.samples import spec_trace
from tests.player.views import recorded

pytestmark = pytest.mark.browser


def guide(page: Page, view: str) -> Locator:
    return page.locator(f".panels > .{view} .guide")


def says_in_the_mask(page: Page, words: str) -> None:
    """Open the mask for a look, as it is drawn only while it is open."""
    page.locator(".panel-tab", has_text="Mask").click()
    expect(guide(page, "mask")).to_be_visible()
    expect(guide(page, "mask")).to_contain_text(words)
    page.locator(".panel-tab").first.click()


def step(page: Page, key: str = "ArrowRight") -> None:
    page.locator(".player").focus()
    page.keyboard.press(key)


def test_the_sentences_follow_the_moment_and_say_nothing_before_it(page: Page) -> None:
    """Catches: a view nobody explains, and an explanation that speaks of p, verdicts or text that are not there yet."""
    number = next(
        at for at, row in enumerate(spec_trace().rounds) if row.nodes.verdict[:2] == ["accepted", "rejected"]
    )
    open_player(page, cursor={"round": number + 1, "step": 0, "node": None})
    tree, mask, odds = (guide(page, view) for view in ("strip", "mask", "odds"))
    expect(tree).to_contain_text("Each box guesses what follows the box to its left. Nothing is judged yet.")
    says_in_the_mask(page, "a token that the target is about to read")
    expect(odds).to_have_text(re.compile(r"striped bar is the proposer's probability q\.$"))
    step(page)
    expect(tree).to_contain_text("The target has read all of them in one pass")
    says_in_the_mask(page, "a token that the target has read")
    expect(odds).to_contain_text("Solid line p: the target's; dashed line q: the proposer's")
    step(page)
    expect(tree).to_contain_text("✓\u00a0accepted; ✗\u00a0rejected")
    step(page, "ArrowDown")
    expect(tree).to_contain_text("Guesses marked\u00a0✓ are now text")
    page.set_viewport_size(
        {"width": 700, "height": 900}
    )  # one view at a time: each has room for its sentence
    for each in (tree, mask, odds):
        expect(each).to_be_visible()
        assert each.evaluate("words => words.getBoundingClientRect().height") > 12
        step(page, "v")


def test_where_nothing_was_guessed_the_sentences_say_so(page: Page) -> None:
    open_player(page, cursor={"round": 2, "lead": 0, "node": None})
    expect(guide(page, "strip")).to_have_text(
        re.compile("^Nothing was guessed: the target read the root alone")
    )
    says_in_the_mask(page, "One row, as in plain decoding: the target has read the root alone.")
    expect(guide(page, "odds")).to_contain_text("its bar is the target's probability p")


def test_a_tree_is_told_from_a_chain(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = recorded("branching", '{"width": 3, "depth": 3}').to_json()
    open_player(page, cursor={"round": 1, "step": 0, "node": None})
    expect(guide(page, "strip")).to_contain_text("boxes after the same one are siblings")
    says_in_the_mask(page, "So one pass holds many branches, and none sees another.")


def test_on_a_projector_the_mask_grows_with_the_type(page: Page) -> None:
    """Catches: words of the mask that are cut off, because its squares stay small while the type grows."""
    page.add_style_tag(content=":root { font-size: 26px }")
    open_player(page, present=True, cursor={"round": 3, "node": None, "view": "mask"})
    expect(guide(page, "mask")).to_be_visible()
    prefix = page.locator(".mask-column.prefix")
    expect(prefix).to_have_css("width", f"{3 * 24 * 26 / 16:g}px")
    label = page.evaluate(
        """() => {
          const range = document.createRange();
          range.selectNodeContents(shadow.querySelector(".mask-column.prefix"));
          return range.getBoundingClientRect().width;
        }"""
    )
    assert label <= 3 * 24 * 26 / 16
