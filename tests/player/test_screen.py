"""One screen: text, tree, odds and sentence together; and the guesses as ghost text before their fate."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import Server, open_player
from tests.player.samples import Plan, plain_trace, spec_trace
from tests.player.test_live import live, messages
from tests.player.test_tree import random_parents, tree_record
from tests.player.views import recorded

pytestmark = pytest.mark.browser

PARTS = (".leads .pane", ".transcript", ".tree", ".odds-title", ".controls", ".slider")
# The odds of the decision: what is compared, the guess's p and q, the coin and what it decided.
ODDS = (".compares", ".bar-heads", ".bar-row.chosen", ".coin .axis", ".coin .met")
BOXES = """parts => parts.map((name) => {
  const { left, top, right, bottom, width, height } = shadow.querySelector(name).getBoundingClientRect();
  return [left, top, right, bottom, width, height];
})"""
HIDDEN = """() => {
  const box = shadow.querySelector(".tree");
  return [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight];
}"""


def chain(size: int) -> dict[str, Any]:
    """A round of `size` guesses, the last but one rejected."""
    words = [(" The", 0.9, 0.5, 0.1)] * (size - 2) + [(" cat", 0.1, 0.9, 0.8), (" mat", 0.5, 0.5, 0.1)]
    record: dict[str, Any] = json.loads(
        spec_trace([Plan(words, " fox"), Plan([(" The", 0.9, 0.5, 0.1)], ".")]).to_json()
    )
    return record


def shaped(shape: str) -> dict[str, Any]:
    """A record whose first round has that shape."""
    if shape == "tree of 16":
        return tree_record(random_parents(16, 3))
    if shape.startswith("chain"):
        return chain(int(shape.split()[-1]))
    record: dict[str, Any] = json.loads(recorded("branching", TREE, temperature=1.0).to_json())
    return record


TREE = '{"width": 3, "depth": 2, "nodes": 12, "beam": 3}'
WORDS = """() => {
  const box = shadow.querySelector(".tree").getBoundingClientRect();
  const keys = shadow.querySelector(".controls").getBoundingClientRect();
  const all = [...shadow.querySelectorAll(".tree .chip")];
  const place = shadow.querySelector(".tree .judging, .tree .chip.selected")?.getBoundingClientRect();
  return {
    cut: all.filter((chip) => {
      const word = chip.querySelector(".chip-text");
      return chip.clientWidth < 60 || !word.clientWidth || word.scrollWidth > word.clientWidth;
    }).length,
    split: [...shadow.querySelectorAll(".guess")].filter((guess) => guess.getClientRects().length > 1).length,
    inside: place && place.left >= box.left && place.right <= box.right && place.bottom <= keys.top,
    controls: keys.bottom <= innerHeight,
    across: document.scrollingElement.scrollWidth <= innerWidth,
  };
}"""
PLACES = "all => all.map((chip) => [chip.style.left, chip.style.top])"


def serve_held_up(server: Server, record: dict[str, Any]) -> None:
    """Serve the record beside a plain lane, both held up: the head's note on that must cost no further line."""
    plain = json.loads(plain_trace().to_json())
    for trace in (record, plain):
        trace["rounds"][-1]["verify_s"] = 3.0
    server.files |= {"/traces/spec.json": json.dumps(record), "/traces/plain.json": json.dumps(plain)}


SIZES = [(1440, 900), (1280, 720)]
APP = "body { padding: 60px 80px 0 !important }"  # the app's head and margins


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", ["chain of 4", "chain of 16", "tree of 12, drawn", "tree of 16"])
def test_text_tree_odds_and_sentence_are_seen_together(
    page: Page, server: Server, size: tuple[int, int], shape: str
) -> None:
    """Catches: a part of the story below the fold, a tree of up to 16 nodes that has to be scrolled, and a chain of
    marks without words, or one whose guesses move at the commit."""
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.add_style_tag(content=APP)
    serve_held_up(server, shaped(shape))
    open_player(page, cursor={"round": 1, "step": 2, "node": None})
    assert page.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    for name, box in zip(PARTS, page.evaluate(BOXES, list(PARTS)), strict=True):
        left, top, right, bottom, wide, high = box
        assert left >= 0 and top >= 60 and right <= width and wide > 100 and high > 15, (name, box)
        assert bottom <= height, (name, box)
    panel = page.locator(".odds").bounding_box()
    assert panel is not None and panel["height"] >= 130 and panel["y"] + panel["height"] <= height
    if shape != "tree of 16":  # this record has no distributions
        for name, box in zip(ODDS, page.evaluate(BOXES, list(ODDS)), strict=True):
            left, top, right, bottom, wide, high = box
            assert panel["x"] <= left and right <= panel["x"] + panel["width"] and wide > 40, (name, box)
            assert panel["y"] <= top and bottom <= panel["y"] + panel["height"] and high > 10, (name, box)
    assert max(page.evaluate(HIDDEN)) <= 1
    expect(page.locator(".mask")).to_be_hidden()
    page.locator(".player").focus()
    if shape.startswith("chain"):
        assert page.evaluate(WORDS)["cut"] == 0
        places = page.locator(".tree .chip").evaluate_all(PLACES)[
            :-1
        ]  # the last makes room for the correction
        page.keyboard.press("ArrowDown")
        assert page.locator(".tree .chip:is(.accepted, .rejected)").evaluate_all(PLACES) == places
        assert page.evaluate(WORDS)["cut"] == 0
    page.keyboard.press("v")  # one key away
    mask = page.locator(".mask-box").bounding_box()
    assert mask is not None and mask["y"] + mask["height"] <= height
    for name in (".leads .pane", ".transcript"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", ["chain", "tree of 16"])
def test_a_run_that_goes_on_is_seen_on_the_same_screen(
    page: Page, server: Server, size: tuple[int, int], shape: str
) -> None:
    """Catches: lanes, tree or sentence of a live run below the fold or cut off."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_style_tag(content=APP)
    said = [message for message in messages() if message["type"] not in ("finished", "done")]
    if shape.startswith("tree"):
        for step in said:
            if step["type"] == "step" and step["lane"] == 1:
                step.update(parent=random_parents(16, 3), node_texts=[" word"] * 16, verdict=["waiting"] * 16)
    told = threading.Event()

    def stream(last: int) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from ((id, said[id]) for id in range(max(0, last + 1), len(said)))
        told.wait(30)

    server.streams["/runs/a/events"] = stream
    live(page)
    written = max(step["total"] for step in said if step.get("lane") == 1 and "total" in step)
    expect(page.locator(".lane:nth-child(2) .number:nth-child(3) b")).to_have_text(str(written))
    page.locator(".tree .chip").last.wait_for()
    assert page.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    parts = [".lane:first-child .pane", ".lane:last-child .pane", ".transcript", ".tree", ".timeline"]
    for name, box in zip(parts, page.evaluate(BOXES, parts), strict=True):
        left, top, right, bottom, wide, high = box
        assert left >= 0 and top >= 60 and right <= size[0] and bottom <= size[1], (name, box)
        assert wide > 100 and high > 15, (name, box)
    assert max(page.evaluate(HIDDEN)) <= 1
    told.set()


SHADED = """async (hidden) => {
  const panel = shadow.querySelector(".odds");
  const parts = [...panel.querySelectorAll(".odds-main, .odds-side")];
  const end = () => Math.max(...parts.map((part) => part.getBoundingClientRect().bottom));
  panel.style.flex = `0 0 ${end() - panel.getBoundingClientRect().top - hidden}px`;
  const shades = [];
  for (const top of [0, panel.scrollHeight]) {
    panel.scrollTop = top;
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    shades.push(Number(getComputedStyle(panel, "::after").opacity));
  }
  panel.scrollTop = 0;
  return shades;
}"""


def test_the_odds_are_shaded_only_where_they_go_on(page: Page, server: Server) -> None:
    """Catches: a shade over the last line where nothing but empty space is below it."""
    page.set_viewport_size({"width": 1440, "height": 900})
    server.files["/traces/spec.json"] = recorded("draft-model").to_json()
    open_player(page, cursor={"round": 2, "node": None})
    shown = {hidden: page.evaluate(SHADED, hidden) for hidden in (60, 4, -4, -40)}
    assert shown == {60: [1, 0], 4: [1, 0], -4: [0, 0], -40: [0, 0]}


SEEN = """() => {
  const [view, keys] = [".panels", ".controls"].map((name) => shadow.querySelector(name).getBoundingClientRect());
  return Math.min(innerHeight, view.bottom, keys.top > view.top ? keys.top : view.bottom) - view.top;
}"""


@pytest.mark.parametrize("size", [(944, 700), (390, 784)])  # what 1024×768 and a phone leave below the head
def test_in_a_narrow_player_the_sentence_and_the_lane_stay_with_each_view(
    page: Page, server: Server, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    serve_held_up(server, json.loads(recorded("draft-model").to_json()))
    open_player(page, cursor={"round": 2, "step": 2, "node": None})
    for name in ("tree", "mask", "odds"):
        expect(page.locator(".panel.open")).to_have_count(1)
        assert page.evaluate("scrollY") == 0
        for part in (".leads .pane", ".transcript", ".panel-tabs"):
            expect(page.locator(part)).to_be_in_viewport(ratio=0.99)
        assert page.evaluate(SEEN) > (160 if name == "tree" else 280 if size[0] > 500 else 300), name
        page.locator(".player").focus()
        page.keyboard.press("v")


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_on_a_phone_the_decision_is_in_sight_before_the_rows(
    page: Page, server: Server, temperature: float
) -> None:
    """Catches: the coin or the two tokens compared below a table of a screen's height."""
    page.set_viewport_size({"width": 390, "height": 784})
    trace = recorded("draft-model", temperature=temperature)
    server.files["/traces/spec.json"] = trace.to_json()
    at, node = next(
        (row.index, row.nodes.verdict.index("rejected"))
        for row in trace.rounds
        if "rejected" in row.nodes.verdict
    )
    open_player(page, cursor={"round": at + 1, "node": node})
    page.locator(".panel-tab", has_text=re.compile("^Odds$")).click()
    expect(page.locator(".odds .coin").first).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", SIZES)
def test_the_odds_have_the_whole_height_under_a_tab_of_their_own(
    page: Page, server: Server, size: tuple[int, int]
) -> None:
    """Catches: rows, coin and what is drawn after a rejection only in a small window below the tree."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_style_tag(content=APP)
    server.files["/traces/spec.json"] = recorded("draft-model").to_json()
    open_player(page, cursor={"round": 1, "step": 2, "node": None})
    height = "shadow.querySelector('.odds').clientHeight"
    below = page.evaluate(height)
    page.locator(".panel-tab", has_text=re.compile("^Odds$")).click()
    expect(page.locator(".tree")).to_be_hidden()
    assert page.evaluate(SEEN) > below + 140
    for name in (".leads .pane", ".transcript", ".controls"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)
    page.locator(".panel-tab").first.click()
    expect(page.locator(".tree")).to_be_visible()
    assert page.evaluate(height) == below


def test_on_a_phone_every_guess_keeps_its_word_and_the_current_one_is_in_sight(
    page: Page, server: Server
) -> None:
    """Catches: boxes with a mark and no word, a tree that leaves the current guess outside its box, controls below the
    fold, a page that scrolls sideways, a guess in two pieces."""
    page.set_viewport_size({"width": 358, "height": 784})
    page.emulate_media(reduced_motion="reduce")  # a guess on its way is elsewhere
    shapes = [chain(4), chain(16), tree_record(random_parents(8, 5)), tree_record(random_parents(16, 3))]
    for at, record in enumerate(shapes):
        server.files["/traces/spec.json"] = json.dumps(record)
        last = len(record["rounds"][0]["nodes"]["token"]) - 1
        # Of a chain the last guess but one is being judged, of a tree the last is chosen.
        open_player(
            page,
            cursor={"round": 1, "step": last + 1, "node": None}
            if at < 2
            else {"round": 1, "step": 1, "node": last},
        )
        assert page.evaluate(WORDS) == {
            "cut": 0,
            "split": 0,
            "inside": True,
            "controls": True,
            "across": True,
        }, at


NEWEST = """() => [...shadow.querySelectorAll(".lane:not(.leads)")].map((lane) => {
  const [pane, word] = [lane.querySelector(".pane"), [...lane.querySelectorAll(".tok")].at(-1)];
  const [{ top, bottom, height }, { top: from, bottom: to }] = [pane, word].map((part) => part.getBoundingClientRect());
  return from >= top && to <= bottom && height < 2 * (to - from) && bottom <= innerHeight;
})"""


@pytest.mark.parametrize("lanes", [2, 4])
def test_on_a_phone_each_other_lane_has_a_line_of_its_newest_text(page: Page, lanes: int) -> None:
    page.set_viewport_size({"width": 390, "height": 784})
    traces = [
        {"label": "A lane with a rather long name, γ = 4", "url": f"/traces/{name}.json"}
        for name in ("plain", *["spec"] * (lanes - 1))
    ]
    open_player(page, traces=traces, cursor={"round": 6, "step": 2, "node": None})
    assert page.evaluate(NEWEST) == [True] * (lanes - 1)
    heads = page.locator(".lane:not(.leads) .lane-head").evaluate_all("all => all.map(e => e.offsetHeight)")
    assert max(heads) < 40, "one line"
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_on_a_phone_the_words_about_the_round_are_whole(page: Page) -> None:
    """Catches: "A telling round: 1 kept, then a rejection. End sh…"."""
    page.set_viewport_size({"width": 390, "height": 784})
    open_player(page, cursor={"round": None, "node": None})
    said = page.locator(".pace")
    expect(said).to_contain_text("Press ⏭ for the result.")
    expect(said).to_be_in_viewport(ratio=1)
    assert said.evaluate(
        "e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth"
    )
    keys = "shadow.querySelector('.controls .buttons').getBoundingClientRect().top"
    below = page.evaluate(keys)
    page.locator(".player").focus()
    page.keyboard.press("ArrowUp")
    expect(said).to_be_empty()
    assert page.evaluate(keys) == below, "the buttons stay below the thumb"


LINE_AND_BELOW = """() => {
  const boxes = (name) => [...shadow.querySelectorAll(`.leads ${name}`)].map((part) => part.getBoundingClientRect());
  const below = boxes(".hang");
  const apart = (one, other) => (Math.abs(other.top - one.top) < 9 ? other.left - one.right : 0); // of one line
  const gaps = (all) => all.slice(1).map((box, at) => apart(all[at], box));
  return {
    text: gaps(boxes(".tok")),
    below: Math.min(...gaps(below)),
    least: Math.min(...below.map(({ width }) => width)),
    edge: boxes(".pane")[0].right - below.at(-1).right,
    width: below.at(-1).width,
    under: Math.min(...boxes(".spot").map(({ bottom }, at) => bottom - below[at].bottom)),
  };
}"""


def test_rejected_words_are_read_and_leave_no_large_holes_in_the_text_above_them(
    page: Page, server: Server
) -> None:
    """Catches: a gap in the text as wide as a long word that was rejected below it, one of which only the cross is
    seen, text that moves once the next round is there, a rejected word drawn over another or the next line, or cut off
    at the lane's edge."""
    stays, goes = (0.9, 0.5, 0.1), (0.1, 0.9, 0.8)
    plans = [
        Plan([("<script>alert(1)</script>", *goes)], "."),
        Plan([(" The", *stays), (" fox", *stays), (" quick", *goes)], " cat"),
        Plan([("<script>alert(1)</script>", *goes)], "."),
        Plan([("<img src=x onerror=alert(2)>", *goes)], " mat"),
    ]
    server.files["/traces/spec.json"] = spec_trace(plans).to_json()
    page.set_viewport_size({"width": 390, "height": 844})
    open_player(page, cursor={"round": 3, "node": None})
    before = page.evaluate(LINE_AND_BELOW)
    assert before["width"] > 100, "with nothing after it, a rejected word is whole"
    page.locator(".player").focus()
    page.keyboard.press("ArrowDown")
    after = page.evaluate(LINE_AND_BELOW)
    assert after["text"][:-1] == before["text"]
    for seen in (before, after):
        assert max(seen["text"]) < 52, "no more than a short word needs"
        assert seen["least"] > 50, "more than its cross is seen of each"
        assert seen["below"] >= 0 and seen["edge"] >= 0 and seen["under"] > -1
    cut = page.locator(".leads .hang").first
    narrow = cut.evaluate("word => word.offsetWidth")
    cut.hover()
    assert cut.evaluate("word => word.offsetWidth") > narrow + 100, "whole under the pointer"


GHOSTS = "all => all.map(guess => [guess.textContent, guess.className.split(' ')[1]])"


def test_guesses_are_ghosts_until_each_is_ticked_or_struck(page: Page) -> None:
    """Catches: a lane that shows nothing until the commit; a verdict before its moment; a guess counted as text."""
    open_player(page, cursor={"round": 0, "node": None})
    ghosts = page.locator(".leads .guess")
    committed = page.locator(".leads .committed .tok")
    page.locator(".player").focus()
    w = "waiting"
    for states in (
        (w, w, w),
        (w, w, w),
        ("accepted", w, w),
        ("accepted", "accepted", w),
        ("accepted", "accepted", "rejected"),
    ):
        page.keyboard.press("ArrowRight")
        assert ghosts.evaluate_all(GHOSTS) == [
            list(pair) for pair in zip((" The", " quick", " fox"), states, strict=True)
        ]
        expect(committed).to_have_count(0)
    page.keyboard.press("ArrowRight")  # the commit
    expect(ghosts).to_have_count(0)
    expect(committed).to_have_count(3)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert ghosts.evaluate_all(GHOSTS) == [[" cat", "rejected"], [" mat", "dropped"]]


def test_a_guess_and_its_mark_stay_on_one_line(page: Page, server: Server) -> None:
    """Catches: a tick that begins the next line without the number it belongs to, and a line that leaves its pane."""
    record = tree_record(list(range(-1, 11)), ["accepted"] * 12)
    record["texts"].update({str(500 + node): f"{node}ab"[: 1 + node % 3] for node in range(12)})
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "step": 4, "node": None})
    expect(page.locator(".leads .guess")).to_have_count(12)
    for width in range(340, 420, 8):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(WORDS)["split"] == 0, width
        assert page.locator(".leads .pane").evaluate("pane => pane.scrollWidth <= pane.clientWidth + 1"), (
            width
        )


LINE = """async (proposals) => {
  const { lineOf } = await import("/player/lanes/pending_guesses.js");
  const { line, others } = lineOf({
    proposals: proposals.map(([parent, verdict], node) => ({ node, parent, verdict, text: `t${node}` })),
  });
  return [line.map(({ node, state }) => `${node} ${state}`), others];
}"""


def test_of_a_tree_the_path_and_the_guess_judged_next_are_shown(page: Page) -> None:
    w = "waiting"
    tree = [(-1, w), (-1, w), (0, w), (1, w), (0, "pruned")]
    assert page.evaluate(LINE, tree) == [["0 waiting", "2 waiting"], 2]
    tree[0] = (-1, "rejected")
    assert page.evaluate(LINE, tree) == [["0 rejected", "1 waiting", "3 waiting"], 1]
    tree[1] = (-1, "accepted")
    assert page.evaluate(LINE, tree) == [["1 accepted", "3 waiting"], 1]
    tree[3] = (1, "rejected")
    assert page.evaluate(LINE, tree) == [["1 accepted", "3 rejected"], 0]
