"""What a newcomer has to see: the tree's root, what was decided, whole names, tooltips, and where the keyboard is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from app.course import steps
from app.theme import CSS
from tests.player.conftest import Server, open_player
from tests.player.samples import Plan, spec_trace
from tests.player.test_live import messages
from tests.player.test_mask import tree_record

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}
EAGLE = ([-1, 0, 1, 0], ["accepted", "accepted", "rejected", "unreached"])  # the shape of the lab's first run
INSIDE = """names => {
  const box = shadow.querySelector(".tree");
  const frame = box.getBoundingClientRect();
  return names.map((name) => {
    const { left, right, top, bottom } = box.querySelector(name).getBoundingClientRect();
    return left >= frame.left && right <= frame.right && top >= frame.top && bottom <= frame.bottom;
  });
}"""


def tree(parents: list[int], verdicts: list[str], **names: str) -> dict[str, Any]:
    record = tree_record(parents, verdicts)
    record["texts"].update({name.removeprefix("t"): text for name, text in names.items()})
    return record


def opened(page: Page, server: Server, record: dict[str, Any], **cursor: Any) -> None:
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None, **cursor})


@pytest.mark.parametrize("own", ["rejected", "accepted"])
def test_on_a_phone_a_tree_opens_with_its_root_and_what_was_decided(
    page: Page, server: Server, own: str
) -> None:
    """Catches: a tree that opens scrolled to its end, without the root that it begins with."""
    page.set_viewport_size(PHONE)
    opened(page, server, tree(EAGLE[0], ["accepted", "accepted", own, "unreached"]))
    decided = "[data-node='2']" if own == "rejected" else ".chip.ghost"
    assert page.evaluate(INSIDE, [".stem", decided, ".chip.ghost"]) == [True] * 3
    assert page.evaluate("shadow.querySelector('.tree').scrollLeft") == 0


def test_on_a_phone_a_deep_tree_opens_no_further_from_its_root_than_needed(
    page: Page, server: Server
) -> None:
    """Catches: a deep tree scrolled to its end although what was decided is near its root."""
    page.set_viewport_size(PHONE)
    page.emulate_media(reduced_motion="reduce")  # a guess on its way is elsewhere
    parents = [-1, -1, *range(22), *range(2, 12)]
    verdicts = ["accepted", "unreached", "rejected", *["unreached"] * (len(parents) - 3)]
    opened(page, server, tree(parents, verdicts))
    assert page.evaluate("(b => b.scrollWidth > b.clientWidth)(shadow.querySelector('.tree'))"), "too large"
    assert page.evaluate(INSIDE, [".stem", "[data-node='2']"]) == [True, True]


def test_a_tree_that_was_hidden_shows_what_was_decided(page: Page, server: Server) -> None:
    """Catches: a tree that was followed while its panel was hidden, as in a live run on a phone, and that is then
    believed to be scrolled to where it is not."""
    page.set_viewport_size(PHONE)
    parents = list(range(-1, 30))
    opened(page, server, tree(parents, ["accepted"] * 31))
    assert page.evaluate("shadow.querySelector('.tree').scrollLeft") > 0, "what was decided is at the end"
    display = "display => { shadow.querySelector('.panel-box').style.display = display; }"
    page.evaluate(display, "none")
    page.locator(".player").focus()
    for key in ("ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
    page.evaluate(display, "")
    page.wait_for_function(f"names => ({INSIDE})(names)[0]", arg=[".chip.ghost"])


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_at_the_end_of_a_run_the_keys_and_the_time_bar_are_in_view(
    page: Page, server: Server, size: tuple[int, int]
) -> None:
    """Catches: a run that ends below its form with the controls below the fold."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_style_tag(
        content="body { padding: 420px 80px 600px !important }"
    )  # the lab's form, and its charts
    said = messages()
    server.streams["/runs/a/events"] = lambda last: [
        (id, said[id]) for id in range(max(0, last + 1), len(said))
    ]
    open_player(page, mode="live", events="/runs/a/events", traces=[], prompt=None)
    expect(page.locator(".where")).to_have_text("Round 1 of 12")
    for part in (".control.play", ".control.step", ".slider", ".timeline", ".speed"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [390, 1024, 1280, 1440])
@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_the_root_says_what_it_is(page: Page, server: Server, shape: str, width: int) -> None:
    """Catches: a dark box that only a pointer's tooltip explains; words that are cut, or cover a node."""
    page.set_viewport_size({"width": width, "height": 844})
    record = tree(*EAGLE) if shape == "tree" else tree([-1, 0, 1, 2], ["accepted"] * 4)
    opened(page, server, record)
    said = page.locator(".tree .note-is")
    expect(said).to_be_visible()
    expect(said).to_have_text("root: last token so far")
    assert page.evaluate(INSIDE, [".note-is", ".stem"]) == [True, True]
    assert said.evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight + 1")
    box = said.bounding_box()
    assert box is not None
    for chip in page.locator(".tree .chip").all():
        place = chip.bounding_box()
        assert place is not None
        assert place["x"] >= box["x"] + box["width"] or place["y"] >= box["y"] + box["height"]


def test_lines_of_a_folded_tree_or_chain_are_explained(page: Page, server: Server) -> None:
    """Catches: a chain that goes on in a second line without a word about it, or that word where there are no lines."""
    page.set_viewport_size(PHONE)
    lines = page.locator(".tree .note-lines")
    for parents in ([-1, 0, 1, 2], EAGLE[0]):
        opened(page, server, tree(parents, ["accepted", "accepted", "accepted", "unreached"]))
        expect(lines).to_be_visible()
        expect(lines).to_have_text("Continued on the next line.")
        assert page.evaluate(INSIDE, [".note-lines"]) == [True]
    page.set_viewport_size({"width": 1440, "height": 900})
    opened(page, server, tree(*EAGLE))
    expect(lines).to_be_hidden()


def test_the_views_of_a_tree_are_named_in_words(page: Page, server: Server) -> None:
    """Catches: four corners that are taken for a full screen; a name that does not begin with the visible word."""
    opened(page, server, tree(*EAGLE))
    for name, word in (("fit", "Fit"), ("full", "1:1")):
        button = page.locator(f".zoom-button.{name}")
        expect(button).to_have_text(word)
        label = button.get_attribute("aria-label") or ""
        assert label.startswith(word) and len(label) > len(word) + 5
        assert button.get_attribute("title") == label
        assert button.evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize("width", [320, 390, 640, 800, 1024, 1440])
def test_the_speedups_definition_is_on_the_screen(page: Page, width: int) -> None:
    """Catches: a definition that opens over the screen's right edge."""
    page.set_viewport_size({"width": width, "height": 900})
    open_player(page)
    page.locator(".how summary").click()
    page.wait_for_function(
        """() => {
          const { left, right } = shadow.querySelector(".how p").getBoundingClientRect();
          return left >= 0 && right <= innerWidth;
        }"""
    )


@pytest.mark.parametrize("width", [320, 390, 768, 1024])
def test_a_formulas_terms_are_explained_on_the_screen(browser: Browser, width: int) -> None:
    """Catches: an explanation that begins at its term, near the right edge, and ends outside the screen."""
    folder = steps.__file__.rpartition("/")[0]
    with open(f"{folder}/course.css", encoding="utf-8") as sheet:
        css = sheet.read()
    words = (
        "The share of guesses that the target accepts, of those that it judges at all, over the whole run."
    )
    terms = "".join(
        f"<span class='term' tabindex='0'>term{at}<span role='tooltip'>{words}</span></span> "
        for at in range(20)
    )
    page = browser.new_page(viewport={"width": width, "height": 844})
    try:
        page.set_content(f"<style>{CSS}{css}body{{margin:16px}}</style><p class='terms'>{terms}</p>")
        for term in page.locator(".term").all():
            term.focus()
            box = term.locator("[role=tooltip]").bounding_box()
            assert box is not None
            assert box["x"] >= 0 and box["x"] + box["width"] <= width, term.inner_text()
    finally:
        page.close()


CUT = """() => [...shadow.querySelectorAll(".tree .chip-text")]
  .filter((word) => word.getClientRects().length && word.scrollWidth > word.clientWidth)
  .map((word) => word.textContent)"""


@pytest.mark.parametrize("width", [390, 1024, 1280, 1440])
def test_names_use_the_room_beside_them(page: Page, server: Server, width: int) -> None:
    """Catches: "generat…" beside an empty half of the tree, in a leaf, in a column, and in the target's own token."""
    page.set_viewport_size({"width": width, "height": 900})
    record = tree(*EAGLE, t503=" generators", t501=" looking", t502=" complexity", t900=" replacement")
    opened(page, server, record)
    assert page.evaluate(CUT) == []
    boxes = [chip.bounding_box() for chip in page.locator(".tree :is(.chip, .stem)").all()]
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            assert one is not None and other is not None
            apart = one["x"] >= other["x"] + other["width"] or other["x"] >= one["x"] + one["width"]
            above = one["y"] >= other["y"] + other["height"] or other["y"] >= one["y"] + one["height"]
            assert apart or above


RULER = """async () => {
  const { drawRuler } = await import("/player/odds/ruler.js");
  const probs = [[1, " noted", 0.1], [2, "a", 0.02], [3, " everything", 0.15], [4, "b", 0.03], [5, " some", 0.4]];
  const box = (part) => part.getBoundingClientRect();
  return [1, 3, 5].map((drawn) => {
    const head = probs.map(([id, text, prob]) => ({ id, text, prob, committed: id === drawn }));
    const [bar, ends] = drawRuler(head, { 1: 0.05, 3: 0.3, 5: 0.99 }[drawn], 10);
    for (const part of [bar, ends]) part.style.inlineSize = "200px";
    shadow.querySelector(".odds").append(bar, ends);
    const [frame, own, name] = [bar, bar.querySelector(".drawn"), ends.querySelector(".drawn-name")].map(box);
    const middle = (own.left + own.right) / 2;
    return {
      widths: [...bar.querySelectorAll("[data-token]:not(.rest)")].map((part) => Math.round(box(part).width / 1.98)),
      titles: [...bar.querySelectorAll("[title]")].map((part) => part.title),
      under: name.left <= middle + 1 && name.right >= middle - 1,
      within: name.left >= frame.left - 1 && name.right <= frame.right + 1,
      covered: name.top < box(bar).bottom,
    };
  });
}"""


def test_the_draw_s_ruler_is_to_scale_and_names_the_drawn_token_below_it(page: Page) -> None:
    """Catches: names that cover what is beside their parts, so that a token looks more likely than it is; parts that
    nothing names."""
    page.set_viewport_size({"width": 1440, "height": 900})
    open_player(page, cursor={"round": 1, "node": None})
    for drawn in page.evaluate(RULER):
        assert drawn["widths"] == [10, 2, 15, 3, 40]
        assert drawn["under"] and drawn["within"] and not drawn["covered"]
        assert [
            title.replace("\N{NO-BREAK SPACE}", " ") for title in drawn["titles"] if title != "all others"
        ] == [
            "‘ noted’ 0.100",
            "‘a’ 0.020",
            "‘ everything’ 0.150",
            "‘b’ 0.030",
            "‘ some’ 0.400",
        ]


def test_a_space_beside_a_line_break_is_drawn(page: Page) -> None:
    """Catches: two rows that both say "⏎"."""
    open_player(page)
    signs = """async () => {
      const { flat } = await import("/player/text/signs.js");
      return [" \\n", "\\n ", "\\n", " word", "a b"].map(flat);
    }"""
    assert page.evaluate(signs) == ["␣⏎", "⏎␣", "⏎", " word", "a b"]


LABELS = """async () => {
  const { label, longest } = await import("/player/odds/odds_chart.js");
  const table = shadow.querySelector(".odds .bars");
  const words = [" atmosphere", " extraordinarily", " a"].map((text) => ({ text }));
  table.style.setProperty("--longest", longest(words));
  const row = table.querySelector(".bar-body .bar-row");
  return words.map(({ text }) => {
    row.firstElementChild.replaceWith(label(text, "✗"));
    const word = row.querySelector(".bar-token");
    return word.scrollWidth > word.clientWidth ? text : row.firstElementChild.offsetWidth;
  });
}"""


def test_words_of_the_odds_have_the_room_that_they_need(page: Page) -> None:
    """Catches: "atmosphe…" beside a chart that has room to spare."""
    page.set_viewport_size({"width": 1440, "height": 900})
    open_player(page, cursor={"round": 1, "node": None})
    expect(page.locator(".odds .bars").first).to_be_visible()
    widths = page.evaluate(LABELS)
    assert len(set(widths)) == 1 and widths[0] < 150, widths


def test_the_ring_around_a_lane_s_name_leaves_the_words_beside_it_free(page: Page) -> None:
    open_player(page)
    page.locator(".player").focus()
    page.keyboard.press("Tab")
    while not page.evaluate("shadow.activeElement.matches('.lane-lead')"):
        page.keyboard.press("Tab")
    free = page.evaluate("""() => {
      const at = shadow.activeElement;
      const { outlineOffset, outlineWidth } = getComputedStyle(at);
      const next = at.closest(".lane-name").querySelector(".ended");
      const end = at.getBoundingClientRect().right + parseFloat(outlineOffset) + parseFloat(outlineWidth);
      return next.textContent && next.getBoundingClientRect().left - end;
    }""")
    assert free >= 0, free


RING = """() => {
  const at = shadow.activeElement;
  if (!at) return null;
  const style = getComputedStyle(at);
  const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
  const { left, right, top, bottom } = at.getBoundingClientRect();
  let whole = true;
  for (let box = at.parentElement; box && box !== shadow.host; box = box.parentElement) {
    if (!/auto|scroll|hidden|clip/.test(getComputedStyle(box).overflow)) continue;
    const given = getComputedStyle(box);
    const margin = given.overflow === "clip" ? parseFloat(given.overflowClipMargin) || 0 : 0;
    const frame = new DOMRect(box.getBoundingClientRect().x - margin, box.getBoundingClientRect().y - margin,
      box.offsetWidth + 2 * margin, box.offsetHeight + 2 * margin);
    if (left - reach < frame.left - 1 || right + reach > frame.right + 1) whole = false;
    if (top - reach < frame.top - 1 || bottom + reach > frame.bottom + 1) whole = false;
  }
  const accent = document.createElement("i");
  accent.style.color = "var(--accent)";
  shadow.querySelector(".player").append(accent);
  const colour = getComputedStyle(accent).color;
  accent.remove();
  return {
    name: `${at.className} ${at.getAttribute("aria-label") ?? at.textContent}`.slice(0, 60),
    ring: style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2 && style.outlineColor === colour,
    whole,
  };
}"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["tree", "mask", "odds"])
def test_whatever_has_the_keyboard_shows_a_whole_ring(
    page: Page, server: Server, view: str, scheme: Any, size: tuple[int, int]
) -> None:
    """Catches: a selected node without a ring of its own, and a ring that the panel's edge cuts off."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    opened(
        page,
        server,
        json.loads(
            spec_trace([Plan([(" The", 0.9, 0.5, 0.1)], "."), Plan([(" The", 0.9, 0.5, 0.1)], ".")]).to_json()
        ),
        view=view,
    )
    page.locator(".player").focus()
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(RING)
        if found is None:
            break
        seen.append(found)
    assert len(seen) > 12
    assert [each["name"] for each in seen if not each["ring"]] == []
    assert [each["name"] for each in seen if not each["whole"]] == []
    kinds = " ".join(each["name"] for each in seen)
    assert {"tree": "chip", "mask": "mask-row", "odds": "panel-tab"}[view] in kinds
    assert re.search("control play", kinds) and "slider" in kinds
