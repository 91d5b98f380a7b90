"""Keys: which are the player's, what each does, and which it leaves alone."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, Route, expect

from tests.player.conftest import SERIALISED, data, open_player
from tests.player.samples import spec_trace

pytestmark = pytest.mark.browser


def test_keys(page: Page) -> None:
    open_player(page, cursor={"round": 2, "node": None})
    where = page.locator(".where")
    page.locator(".player").focus()
    for key, expected in (
        ("ArrowRight", "Round 3 of 12: proposed"),
        ("ArrowRight", "Round 3 of 12: read by the target"),
        ("ArrowRight", "Round 3 of 12: 1 of 3 judged"),
        ("ArrowRight", "Round 3 of 12: 2 of 3 judged"),
        ("ArrowRight", "Round 3 of 12"),
        ("ArrowLeft", "Round 3 of 12: 2 of 3 judged"),
        ("ArrowDown", "Round 3 of 12"),
        ("ArrowDown", "Round 4 of 12"),
        ("ArrowUp", "Round 3 of 12"),
        ("ArrowLeft", "Round 3 of 12: 2 of 3 judged"),
        ("ArrowUp", "Round 2 of 12"),
        ("Home", "The prompt, before round 1"),
        ("ArrowLeft", "The prompt, before round 1"),
        ("End", "The end: every lane has finished"),
        ("ArrowRight", "The end: every lane has finished"),
    ):
        page.keyboard.press(key)
        expect(where).to_have_text(expected)
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.locator(".control.play")).to_have_attribute("aria-label", "Pause (space)")
    expect(where).to_have_text("Round 1 of 12: proposed")
    page.keyboard.press("Space")
    expect(page.locator(".control.play")).to_have_attribute("aria-label", "Play (space)")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    page.evaluate("shadow.activeElement?.blur()")
    page.keyboard.press("?")
    expect(page.locator("dialog"), "of the page, while nothing has the focus").to_be_visible()
    page.keyboard.press("Escape")


def test_nothing_can_be_pressed_before_the_record_has_come(page: Page) -> None:
    """Catches: a button that is seen while the record is read, swallows the press, and jumps away below the pointer."""
    held: list[Route] = []
    page.route("**/traces/spec.json", lambda route: held.append(route))
    page.evaluate("data => open_player(data)", data(cursor={"round": None, "node": None}))
    expect(page.get_by_text("Loading the record of the run.")).to_be_visible()
    while not held:
        page.wait_for_timeout(20)
    assert (
        page.locator(".player").locator("button, input, select, summary").locator("visible=true").count() == 0
    )
    held[0].continue_()
    page.locator(".control.first").click()
    expect(page.locator(".where")).to_have_text("The prompt, before round 1")
    page.locator(".control.next").click()
    expect(page.locator(".where")).to_have_text(f"Round 1 of {len(spec_trace().rounds)}")


def test_keys_that_come_in_one_frame_lay_the_text_out_once(page: Page) -> None:
    """Catches: a layout forced by each key or message; and text that is not scrolled to in the very next frame."""
    page.set_viewport_size({"width": 390, "height": 768})  # where the text is longer than its pane
    open_player(page, cursor={"round": 0, "node": None})
    reads, seen = page.evaluate(
        """() => {
          const read = Element.prototype.getClientRects;
          let reads = 0;
          Element.prototype.getClientRects = function () {
            reads += 1;
            return read.call(this);
          };
          const box = shadow.querySelector('.player');
          const pane = shadow.querySelector('.leads .pane');
          for (let step = 0; step < 12; step += 1) {
            box.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true, cancelable: true }));
          }
          const before = reads;
          return new Promise(requestAnimationFrame).then(() => {
            Element.prototype.getClientRects = read;
            const frame = pane.getBoundingClientRect();
            const last = [...pane.querySelectorAll('.tok')].at(-1).getBoundingClientRect();
            return [before, last.top >= frame.top && last.bottom <= frame.bottom && pane.scrollTop > 0];
          });
        }"""
    )
    assert reads == 0 and seen


def test_forward_from_the_end_stays_at_the_end(page: Page) -> None:
    """Catches: an arrow at the end that goes back into the last round, where no other lane ends later."""
    open_player(page, traces=[{"label": "Draft model", "url": "/traces/spec.json"}])
    end = page.evaluate(SERIALISED)
    page.locator(".player").focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        assert page.evaluate(SERIALISED) == end, key


def test_keys_elsewhere_are_left_alone(page: Page) -> None:
    open_player(page, cursor={"round": 2, "node": None})
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<input id=other>')")
    page.locator("#other").focus()
    page.keyboard.type("a ?")
    page.keyboard.press("ArrowDown")
    assert page.locator("#other").input_value() == "a ?"
    expect(page.locator(".where")).to_have_text("Round 2 of 12")


# Whatever scroll is still under way is stopped: the page stays at its top for several frames.
TO_TOP = """async () => {
  for (let still = 0; still < 5; still = scrollY === 0 ? still + 1 : 0) {
    scrollTo({ top: 0, behavior: "instant" });
    await new Promise(requestAnimationFrame);
  }
}"""


def test_keys_that_nobody_needs_are_the_player_s_and_no_other_leaves_its_place(page: Page) -> None:
    """Catches: arrows, Home, End and Space that do nothing after Run; keys taken from a field, a choice, a menu,
    a button that Space presses, or from scrolling."""
    open_player(page)
    where = page.locator(".where")
    page.evaluate(
        """document.body.insertAdjacentHTML("afterbegin", `<button id="run">Run</button><input id="field" value="words">
          <textarea id="text">words</textarea><input id="range" type="range"><select id="menu"><option>1</select>
          <div role="tablist"><button id="tab" role="tab">Tab</button></div>
          <div role="radiogroup"><button id="choice">One</button></div>
          <button id="more" aria-haspopup="true">More</button>
          <button id="glossary" aria-haspopup="dialog" aria-expanded="false">Glossary</button>`);
        document.getElementById("run").onclick = () => (window.pressed = true);"""
    )
    at = "The end: every lane has finished"
    for name in ("field", "text", "range", "menu", "tab", "choice", "more"):
        page.locator(f"#{name}").focus()
        for key in ("ArrowLeft", "Home"):
            page.keyboard.press(key)
            expect(where).to_have_text(at)
    page.locator("#field").press(" ")
    assert page.locator("#field").input_value() == " words"
    page.locator("#run").focus()
    for key in ("ArrowUp", "ArrowDown", " ", "v", ".", "Shift+ArrowLeft", "Shift+Home", "Control+End"):
        page.keyboard.press(key)
        expect(where).to_have_text(at)
    assert page.evaluate("window.pressed"), "Space presses the button"
    page.keyboard.press("Home")
    expect(where).to_have_text("The prompt, before round 1")
    page.keyboard.press("End")
    expect(where).to_have_text(at)
    page.keyboard.press("ArrowLeft")
    expect(where).to_have_text("Round 12 of 12")
    assert page.evaluate("document.activeElement.id") == "run", "the focus stays where it is"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    expect(where).to_have_text(at)
    page.locator("#glossary").focus()  # as after it was closed by Escape
    for key, place in (("Home", "The prompt, before round 1"), ("End", at)):
        page.keyboard.press(key)
        expect(where).to_have_text(place)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.locator(".control.play")).to_have_attribute("aria-label", "Pause (space)")
    page.keyboard.press("Space")
    page.keyboard.press("End")
    expect(where).to_have_text(at)
    page.evaluate(
        "document.documentElement.style.overflowAnchor = 'none'"
    )  # else the browser scrolls along, now or later
    page.evaluate("document.body.insertAdjacentHTML('afterbegin', '<div style=\"height: 3000px\"></div>')")
    page.evaluate(TO_TOP)
    page.keyboard.press("ArrowLeft")
    expect(where).to_have_text(at)  # out of sight
    page.evaluate("player.destroy()")
    page.keyboard.press("ArrowLeft")  # and nothing is left behind to fail


def test_tokens_can_be_walked_through_by_keys(page: Page) -> None:
    open_player(page, cursor={"round": 1, "node": 0})
    page.locator(".player").focus()
    titles = []
    for _ in range(5):
        titles.append(page.locator(".odds-title").inner_text().strip())
        page.keyboard.press(".")
    assert titles == [
        "✓Proposed ‘\u00a0The’ — accepted",
        "✓Proposed ‘\u00a0quick’ — accepted",
        "✗Proposed ‘\u00a0fox’ — rejected",
        "↻The target wrote ‘⏎’ instead",
        "✗Proposed ‘\u00a0cat’ — rejected",
    ]
    expect(page.locator(".where")).to_have_text("Round 2 of 12")
    page.keyboard.press(",")
    page.keyboard.press(",")
    expect(page.locator(".odds-title")).to_contain_text("The target wrote ‘⏎’ instead")
    page.keyboard.press("Escape")
    expect(page.locator(".selected")).to_have_count(0)


def test_keys_still_work_when_a_pressed_button_was_drawn_anew(page: Page) -> None:
    """Catches: the focus lost with the button, so that the next ↓ scrolls the page."""
    trace = json.loads(spec_trace(temperature=0.0).to_json())
    open_player(page, traces=[{"label": "Draft", "trace": trace}], cursor={"round": 1})
    page.locator(".odds .tabs button").first.click()
    for number in (2, 3, 4):
        page.keyboard.press("ArrowDown")
        expect(page.locator(".where")).to_have_text(f"Round {number} of 12")
