"""Where things stand on the page: nothing moves, overlaps or is cut off."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import Server, open_player, stop_at
from tests.player.samples import Plan, branching_record, spec_trace

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [320, 390, 1024, 1920])
def test_no_sideways_scrolling(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_player(page, cursor={"round": 8, "node": 0})
    for stop in (0, 5, 11, 13):
        stop_at(page, stop)
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), f"stop {stop}"


def test_a_pointer_over_a_token_brings_up_what_became_of_it(page: Page) -> None:
    open_player(page, cursor={"round": 1, "node": None})
    token = page.locator(".leads .tok").first
    assert token.get_attribute("title") is None
    token.hover()
    expect(token).to_have_attribute("title", "‘\u00a0The’, accepted, round 1")


WHERE = "parts => parts.map((part) => JSON.stringify(part.getBoundingClientRect()))"


@pytest.mark.parametrize("width", [390, 1440])
def test_what_the_number_is_lies_over_the_page_and_moves_nothing(page: Page, width: int) -> None:
    """Catches: a definition that pushes lanes and odds out of sight, or that Escape leaves open."""
    page.set_viewport_size({"width": width, "height": 900})
    open_player(page)
    others = page.locator(".lane, .transcript, .controls, .speedup-value")
    before = others.evaluate_all(WHERE)
    page.locator(".how summary").click()
    expect(page.locator(".how p")).to_be_in_viewport(ratio=1)
    assert others.evaluate_all(WHERE) == before
    page.keyboard.press("Escape")
    expect(page.locator(".how p")).to_be_hidden()
    expect(page.locator(".how summary")).to_be_focused()


IN_SIGHT = """() => {
  const pane = shadow.querySelector(".lane:not(.leads) .pane");
  const { top, bottom } = pane.getBoundingClientRect();
  const boxes = [...pane.querySelectorAll(".tok")].filter((token) => token.textContent.trim())
    .map((token) => token.getBoundingClientRect());
  return boxes.filter((box) => box.top >= top - 1 && box.bottom <= bottom + 1).length;
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_a_pane_of_one_line_shows_its_last_words_after_a_line_break(page: Page, width: int) -> None:
    """Catches: an empty lane, as its text has just ended a line."""
    page.set_viewport_size({"width": width, "height": 900})
    plans = [Plan([], word) for word in [" The", " quick", " fox", "\n"] * 6]
    record = json.loads(spec_trace(plans).to_json())
    open_player(
        page, traces=[{"label": name, "trace": record} for name in ("one", "two")],
        cursor={"round": 20, "lead": 1},
    )  # fmt: skip
    assert page.evaluate(IN_SIGHT) >= 3


OVERLAPPING = """() => {
  const parts = [...shadow.querySelectorAll(".score > *")].flatMap((part) => {
    const box = part.getBoundingClientRect();
    return box.width ? [[part.className, box]] : [];
  });
  return parts.flatMap(([one, a], at) => parts.slice(at + 1).flatMap(([other, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1
      ? [[one, other]] : []));
}"""


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_a_sign_that_is_added_moves_nothing(page: Page, width: int) -> None:
    """Catches: the whole player a line lower from the round on in which “left out” joins the signs."""
    page.set_viewport_size({"width": width, "height": 900})
    open_player(page)
    expect(page.locator(".score .random")).to_be_visible()
    tops = page.evaluate("""() => {
      const signs = [...shadow.querySelectorAll(".legend li")].slice(6); // those that come with their verdicts
      const top = () => [".lanes", ".panels"].map((part) => shadow.querySelector(part).getBoundingClientRect().top);
      signs.forEach((sign) => sign.hidden = true);
      return [top(), ...signs.map((sign) => (sign.hidden = false, top()))];
    }""")
    assert tops == [tops[0]] * 7


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (1024, 768), (390, 844)])
def test_no_part_of_the_head_lies_over_another(page: Page, width: int, height: int) -> None:
    """Catches: the note about random tokens over the measured speedup, where the legend is left out."""
    page.set_viewport_size({"width": width, "height": height})
    open_player(page)
    expect(page.locator(".score .random")).to_be_visible()
    assert page.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("width", [320, 1440])
def test_the_tree_is_scrolled_to_the_token_in_focus(page: Page, server: Server, width: int) -> None:
    """Catches: a large tree whose box shows lines only, with the token in focus somewhere outside of it."""
    page.set_viewport_size({"width": width, "height": 700})
    server.files["/traces/spec.json"] = json.dumps(branching_record(wide=24, deep=6))
    for node in (167, 0):  # a leaf of the last branch; the first node
        open_player(page, cursor={"round": 1, "node": node})
        seen = page.evaluate(
            """node => {
              const box = shadow.querySelector('.tree').getBoundingClientRect();
              const chip = shadow.querySelector(`.tree [data-node="${node}"]`).getBoundingClientRect();
              const across = chip.left >= box.left && chip.right <= box.right;
              return across && chip.top >= box.top && chip.bottom <= box.bottom;
            }""",
            node,
        )
        assert seen, node
        expect(page.locator(".tree-cue")).to_be_visible()
        assert page.evaluate("scrollY") == 0 and page.evaluate("scrollX") == 0


# Of a lane's rows: how many are cut at the top, how many whole, whether the last is seen; coloured spaces at ends.
ROWS = """lane => {
  const { top, bottom } = lane.querySelector(".pane").getBoundingClientRect();
  const boxes = (parts) => parts.map((part) => [...part.getClientRects()]);
  const rows = boxes([...lane.querySelectorAll(".prompt, .tok")]).flat().filter((box) => box.width > 0);
  const words = [...lane.querySelectorAll(".tok")].filter((token) => /^ [a-z]+$/i.test(token.textContent));
  const spaces = boxes(words).filter((parts) => parts.length > 1 && parts[0].width > 0);
  return {
    cut: rows.filter((row) => row.top < top - 0.01 && row.bottom > top + 0.01).length,
    whole: new Set(rows.filter((row) => row.top >= top).map((row) => Math.round(row.top / 9))).size,
    end: Math.max(...rows.map((row) => row.bottom)) <= bottom,
    spaces: spaces.length,
  };
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_lanes_show_whole_rows_and_colour_only_ink(page: Page, server: Server, width: int) -> None:
    """Catches: a row cut in half under the lane's head; the coloured space of a word that stands in the next row."""
    page.set_viewport_size({"width": width, "height": 900})
    words = [" The", " quick", " fox", " cat", " mat", "def", "return"]
    plans = [
        Plan([(words[(at + n) % 7], 0.9, 0.6, 0.2 if n < at % 4 else 0.99) for n in range(3)], words[at % 5])
        for at in range(90)
    ]
    server.files["/traces/spec.json"] = spec_trace(plans).to_json()
    server.files["/traces/third.json"] = spec_trace(plans[:70]).to_json()
    lanes = [{"label": name, "url": f"/traces/{name}.json"} for name in ("plain", "third", "spec")]
    for several in (lanes[1:], lanes):
        open_player(page, traces=several)
        for stop in (90, 71, 52):
            stop_at(page, stop)
            for lane in page.locator(".lane").all():
                seen = lane.evaluate(ROWS)
                least = 2 if width > 390 or lane.evaluate("lane => lane.matches('.leads')") else 1
                assert seen["cut"] == seen["spaces"] == 0 and seen["end"] and seen["whole"] >= least, seen


def test_an_answer_stands_apart_from_the_message(page: Page) -> None:
    """Catches: an answer that runs on from the last word of the message it answers."""
    trace = spec_trace()
    shown = []
    for chat in (False, True):
        trace.header.chat = chat
        open_player(page, traces=[{"label": "Draft", "trace": json.loads(trace.to_json())}])
        shown.append(page.locator(".lane .prompt").first.text_content() or "")
    assert not shown[0].endswith("\n\n") and shown[1] == shown[0] + "\n\n"


def test_a_line_break_ends_a_token_s_box_and_its_line(page: Page) -> None:
    """Catches: a mark before "⏎" that looks like the word's before it; the rest of a box at the next line's start."""
    open_player(page)
    page.keyboard.press("End")
    boxes = page.evaluate(
        """() => [...shadow.querySelectorAll('.leads .committed .tok')].map(box => ({
            text: box.textContent, parts: box.getClientRects().length, top: box.getBoundingClientRect().top,
            mark: getComputedStyle(box, '::after').content }))"""
    )
    assert "".join(box["text"] for box in boxes) == spec_trace().text
    ends = [at for at, box in enumerate(boxes[:-1]) if box["text"].endswith("\n")]
    assert len(ends) == 2
    for at in ends:
        assert boxes[at]["parts"] == 1 and boxes[at]["mark"] in ('"✓"', '"↻"', '"★"', '"–"')
        breaks = boxes[at]["text"].count("\n")
        assert boxes[at + 1]["top"] > boxes[at]["top"] + 20 * breaks
