"""The mask and the KV memory, against what the decoder's own reader did in the very pass that is drawn."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import specdec_core as sd
from specdec_core.models.bundle import Models
from specdec_core.record.trace import Trace
from specdec_core.runtime.reader import CausalReader
from tests.player.conftest import Server, open_player
from tests.player.samples import spec_trace
from tests.player.views import recorded

pytestmark = pytest.mark.browser

# Which cells of the drawing are filled, by the shapes themselves: rows of columns, of which −1 is the prefix.
FILLED = """() => [...shadow.querySelectorAll('.mask-line')].map((line, row, all) =>
  [-1, ...all.keys()].map(column => {
    const point = new DOMPoint(column + 0.5, row + 0.5);
    return ['.path', '.own'].some(name => line.querySelector(name).isPointInFill(point));
  }))"""
ROWS = """() => [...shadow.querySelectorAll('.mask-heads .mask-row')].map(row => ({
  node: row.dataset.node === undefined ? null : Number(row.dataset.node),
  text: row.querySelector('.mask-word').textContent,
  position: Number(row.querySelector('.mask-number').textContent),
  slot: Number(row.querySelector('.slot-number').textContent),
}))"""
# Each arrow of the compaction: the slot it comes from and the slot it goes to, counted from the pass's first.
ARROWS = """() => {
  const cell = parseFloat(shadow.querySelector('.mask-field').style.getPropertyValue('--cell'));
  const first = parseFloat(shadow.querySelector('.slots-lane .slot:nth-child(2)').style.insetInlineStart);
  return [...shadow.querySelectorAll('.slots-arrows path')].map(path => {
    const from = path.getPointAtLength(0).x;
    const to = path.getPointAtLength(path.getTotalLength()).x - 4; // the path ends with the right half of the tip
    return [from, to].map(x => Math.floor((x - first) / cell));
  });
}"""
STATES = "() => [...shadow.querySelectorAll('.slots-lane:not(.after) .slot')].slice(1).map(slot => slot.classList[1])"


MASK = "() => { const { hidden, innerHTML } = shadow.querySelector('.mask'); return { hidden, innerHTML }; }"


def test_a_mask_that_nobody_sees_is_not_drawn_and_keeps_nothing(page: Page) -> None:
    """Catches: a step that pays for hundreds of hidden rows, a hidden later round in the page, and a blank sheet."""
    open_player(page, cursor={"round": 3, "node": None})
    hidden = {"hidden": False, "innerHTML": ""}
    assert page.evaluate(MASK) == hidden
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed = page.evaluate(MASK)["innerHTML"]
    assert printed.count("mask-line") > 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(MASK) == hidden
    page.locator(".player").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(MASK) == hidden
    page.keyboard.press("ArrowDown")
    page.keyboard.press("v")
    assert len(page.evaluate(ROWS)) > 1
    page.keyboard.press("ArrowUp")
    earlier = page.evaluate(ROWS)
    page.keyboard.press("ArrowDown")
    page.locator(".panel-tab").first.click()
    assert page.evaluate(MASK) == hidden
    page.keyboard.press("ArrowUp")
    page.locator(".player").focus()
    page.keyboard.press("v")
    assert page.evaluate(ROWS) == earlier


@dataclass
class Pass:
    """One target pass as the model was called: which columns each row may look at, positions, and the KV rows."""

    length: int
    visible: list[list[bool]]
    positions: list[int]
    written: torch.Tensor
    kept: torch.Tensor = field(default_factory=lambda: torch.empty(0))


def watched(
    models: Models, prompt: str, settings: sd.Settings, monkeypatch: pytest.MonkeyPatch
) -> tuple[Trace, list[Pass]]:
    """Decode, and write down what went into the target's forward and what its KV memory held before and after."""
    passes: list[Pass] = []
    call, keep = CausalReader._call, CausalReader.keep

    def keys(reader: CausalReader, end: int) -> torch.Tensor:
        block = reader.memory.layers[0].block_keys  # type: ignore[attr-defined]
        return block[0, 0, :end].clone()

    def watched_call(reader: CausalReader, ids: Any, mask: Any, positions: Any, keep_logits: int) -> Any:
        logits = call(reader, ids, mask, positions, keep_logits)
        if reader.model is models.target.model:  # type: ignore[attr-defined]
            seen = (mask[0, 0] == 0).tolist()
            width = ids.shape[1]
            passes.append(
                Pass(reader.length, seen, positions[0].tolist(), keys(reader, reader.length + width))
            )
        return logits

    def watched_keep(reader: CausalReader, positions: Any) -> None:
        keep(reader, positions)
        if reader.model is models.target.model:  # type: ignore[attr-defined]
            passes[-1].kept = keys(reader, reader.length)

    monkeypatch.setattr(CausalReader, "_call", watched_call)
    monkeypatch.setattr(CausalReader, "keep", watched_keep)
    trace = sd.decode(models, prompt, settings)
    return trace, [each for each in passes if len(each.kept)]  # a prefill keeps nothing


@pytest.fixture(scope="module")
def models() -> Models:
    """The bundled family."""
    return sd.load_models(device="cpu")


@pytest.mark.parametrize(
    ("proposer", "options", "length"),
    [
        ("branching", {"width": 4, "depth": 4, "nodes": 16, "beam": 4}, 10),
        ("lookahead", {"window": 4, "ngram": 3, "guesses": 2, "from_prompt": True}, 6),
        ("draft-model", {}, 8),
    ],
)
def test_rows_columns_positions_and_slots_are_those_of_the_pass(
    page: Page,
    server: Server,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
    proposer: str,
    options: dict[str, Any],
    length: int,
) -> None:
    """Catches: a mask that is not the one the model was given; extra tokens without rows; slots in another order; a
    compaction drawn otherwise than the memory was gathered (the keys themselves are compared)."""
    settings = sd.Settings(proposer=proposer, options=options, max_new_tokens=length)
    trace, passes = watched(models, "the cat and the dog and the cat and the", settings, monkeypatch)
    assert len(passes) == len(trace.rounds) and trace.audit() == []
    server.files["/traces/spec.json"] = trace.to_json()
    moved = 0
    for row, made in zip(trace.rounds, passes, strict=True):
        open_player(page, cursor={"round": row.index + 1, "node": None, "view": "mask"})
        filled = page.evaluate(FILLED)
        rows = page.evaluate(ROWS)
        assert [each["position"] for each in rows] == made.positions
        assert page.locator(".mask-row.rider").count() == row.riders
        assert [each["slot"] for each in rows] == list(range(made.length, len(made.written)))
        for drawn, seen in zip(filled, made.visible, strict=True):
            assert drawn[0] and all(seen[: made.length])
            assert drawn[1:] == seen[made.length :]
        arrows = page.evaluate(ARROWS)
        assert [to for _, to in arrows] == list(range(row.cache_after - row.cache_before))
        for source, to in arrows:
            assert torch.equal(made.written[made.length + source], made.kept[made.length + to])
            moved += source != to
        states = page.evaluate(STATES)
        assert [at for at, state in enumerate(states) if state == "kept"] == [source for source, _ in arrows]
        assert set(states) <= {"kept", "freed"} and len(states) == len(rows)
        titles = page.locator(".slots-lane:not(.after) .slot[title]").evaluate_all(
            "all => all.map(one => one.title)"
        )
        kept = {"kept": ": kept", "freed": ": freed"}
        for at, (title, state) in enumerate(zip(titles, states, strict=True)):
            assert title.startswith(f"Slot {made.length + at}, ") and title.endswith(kept[state])
        said = page.locator(".slots-say")
        expect(said).to_contain_text(f"Cache length {row.cache_before} → {row.cache_after}.")
        committed = len(trace.header.prompt_ids) + sum(
            len(r.committed.token) for r in trace.rounds[: row.index + 1]
        )
        expect(said).to_contain_text(f"{row.cache_after} = {committed} − 1.")
    assert moved or proposer == "draft-model", "no round moved a row, so the case shows nothing"


def tree_record(parents: list[int], verdicts: list[str] | None = None) -> dict[str, Any]:
    """A record whose first round is this tree; every node has probabilities and a name of its own."""
    record: dict[str, Any] = json.loads(spec_trace().to_json())
    size = len(parents)
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    nodes = record["rounds"][0]["nodes"]
    nodes.update(
        parent=parents,
        depth=depths,
        token=[500 + node for node in range(size)],
        verdict=verdicts or ["unreached"] * size,
    )
    record["texts"].update({str(500 + node): f" w{node}" for node in range(size)} | {"900": " OWN"})
    for name in ("p", "q", "model_p", "model_q", "coin", "threshold", "entropy", "rank"):
        nodes[name] = [2 if name == "rank" else 0.5] * size
    path = [
        token
        for token, verdict in zip(nodes["token"], nodes["verdict"], strict=True)
        if verdict == "accepted"
    ]
    record["rounds"][0]["committed"] = {
        "token": [*path, 900],
        "source": [*["accepted"] * len(path), "corrected"],
    }
    record["rounds"][0].update(positions=[], cache_after=record["rounds"][0]["cache_before"] + len(path) + 1)
    record["output"]["texts"] = []
    return record


def random_parents(size: int, seed: int) -> list[int]:
    """A random tree in topological order."""
    chance = random.Random(seed)
    return [chance.randrange(-1, node) for node in range(size)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cells_are_the_ancestor_relation_of_random_trees(page: Page, server: Server, seed: int) -> None:
    parents = random_parents(40, seed)
    server.files["/traces/spec.json"] = json.dumps(tree_record(parents))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    filled = page.evaluate(FILLED)
    for row, drawn in enumerate(filled):
        ancestors, node = {row}, row - 1
        while node >= 0:
            node = parents[node]
            ancestors.add(node + 1)
        assert [column for column, cell in enumerate(drawn[1:]) if cell] == sorted(ancestors)


def test_what_the_target_never_read_has_no_row(page: Page, server: Server) -> None:
    verdicts = ["accepted", "rejected", "accepted", "pruned", "discarded", "pruned"]
    server.files["/traces/spec.json"] = json.dumps(tree_record([-1, -1, 0, 0, 2, 3], verdicts))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    assert [row["node"] for row in page.evaluate(ROWS)] == [None, 0, 1, 2]
    assert page.evaluate(ARROWS) == [[0, 0], [1, 1], [3, 2]]


def test_a_cut_text_leaves_its_last_token_without_a_row(page: Page, server: Server) -> None:
    """Catches: a row said to be kept for an accepted token after which the text ended."""
    record = tree_record([-1, 0], ["accepted", "accepted"])
    record["rounds"][0]["committed"] = {"token": [500, 501], "source": ["accepted", "accepted"]}
    record["rounds"][0]["cache_after"] = record["rounds"][0]["cache_before"] + 2
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    assert page.evaluate(ARROWS) == [[0, 0], [1, 1]]
    expect(page.locator(".slots-say")).to_contain_text("‘\u00a0w1’ (accepted) has no slot yet")
    slots = page.locator(".slots-lane.after .slot")
    assert min(slots.evaluate_all("all => all.map(slot => slot.offsetWidth)")) > 4, (
        "a sliver of freed slots that are none"
    )


def test_nothing_of_the_memory_is_shown_before_its_moment(page: Page, server: Server) -> None:
    """Catches: freed slots, kept slots or the pending token while the round still goes on."""
    record = tree_record([-1, -1, 0], ["accepted", "rejected", "accepted"])
    server.files["/traces/spec.json"] = json.dumps(record)
    expected = ["reserved", "written", "written", "written", "written", "kept freed"]
    for step, state in enumerate(expected):
        open_player(page, cursor={"round": 1, "step": step, "node": None, "view": "mask"})
        assert set(page.evaluate(STATES)) == set(state.split()), step
        html = page.evaluate("() => shadow.querySelector('.mask').outerHTML")
        last = step == len(expected) - 1
        assert page.locator(".slots-arrows path").count() == (3 if last else 0)
        assert page.locator(".mask-lanes").get_by_text("kept", exact=True).is_visible() == last
        assert ("OWN" in html) == last and ("Cache length" in page.locator(".slots-say").inner_text()) == last
        judged = {"accepted": step > 1, "rejected": step > 2}  # level by level, earlier siblings first
        for verdict, there in judged.items():
            assert (page.locator(f".mask-row.{verdict}").count() > 0) == there, (step, verdict)


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_rows_glide_to_their_places_unless_motion_is_unwanted(
    page: Page, server: Server, motion: Any
) -> None:
    page.emulate_media(reduced_motion=motion)
    server.files["/traces/spec.json"] = json.dumps(tree_record([-1, -1], ["rejected", "accepted"]))
    open_player(page, cursor={"round": 1, "step": 3, "node": None, "view": "mask"})
    page.locator(".player").focus()
    page.keyboard.press("ArrowRight")
    moving = page.evaluate(
        "shadow.querySelector('.slots-lane.after').getAnimations({ subtree: true }).length"
    )
    assert moving == (0 if motion == "reduce" else 2)
    assert page.evaluate(ARROWS) == [[0, 0], [2, 1]]


def test_a_record_that_contradicts_itself_says_so(page: Page, server: Server) -> None:
    record = tree_record([-1, 0], ["accepted", "rejected"])
    record["rounds"][0]["cache_after"] += 5
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    expect(page.locator(".slots-say")).to_contain_text("The record contradicts itself")


def test_a_row_lights_what_it_sees_and_its_node(page: Page, server: Server) -> None:
    """Catches: a row that is pointed at and seems to see what it does not."""
    server.files["/traces/spec.json"] = json.dumps(tree_record([-1, -1, 1, 2]))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    page.locator(".mask-heads [data-node='2']").hover()
    expect(page.locator(".tree [data-node='2']")).to_have_class("chip unreached lit")
    filled = page.locator(".mask-line[data-node='2']").evaluate(
        """line => [0, 1, 2, 3, 4].filter(at => [...line.children].some(path =>
            !["transparent", "rgba(0, 0, 0, 0)", "none"].includes(getComputedStyle(path).fill)
            && [0, 1, 2, 3, 4].some(row => path.isPointInFill(new DOMPoint(at + 0.5, row + 0.5)))))"""
    )
    assert filled == [0, 2, 3]
    expect(page.locator(".mask-say")).to_contain_text("the root ‘")
    expect(page.locator(".mask-say")).to_contain_text("‘\u00a0w1’, and itself")
    page.locator(".tree [data-node='3']").dispatch_event(
        "pointermove", {"movementX": 1}
    )  # behind another tab
    expect(page.locator(".mask-heads [data-node='3']")).to_have_class("mask-row unreached lit")


def test_the_last_token_of_a_text_waits_for_no_pass(page: Page, server: Server) -> None:
    """Catches: "written to slot 81 by the next pass" of the token with which the text ended."""
    trace = recorded("draft-model", temperature=0.0, max_new_tokens=20)
    server.files["/traces/spec.json"] = trace.to_json()
    said = page.locator(".slots-say")
    for stop, words in (
        (len(trace.rounds) - 1, "yet, hence the “?”: it is the next root"),
        (len(trace.rounds), "and needs none: the text ends with it"),
    ):
        open_player(page, cursor={"round": stop, "node": None, "view": "mask"})
        expect(said).to_contain_text(words)


def test_up_and_down_go_through_the_rows(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = json.dumps(tree_record([-1, -1, 1]))
    open_player(page, cursor={"round": 1, "node": 0, "view": "mask"})
    page.locator(".mask-heads [data-node='0']").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("shadow.activeElement.dataset.node") == "1"
    expect(page.locator(".mask-row.selected")).to_have_attribute("data-node", "1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("shadow.activeElement.className") == "mask-row root kept"
    expect(page.locator(".where")).to_contain_text("Round 1 of")


def test_a_huge_pass_is_drawn_in_part(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = json.dumps(tree_record(list(range(-1, 4095))))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    expect(page.locator(".mask-line")).to_have_count(320)
    expect(page.locator(".mask-notes")).to_contain_text("3777 more rows of the pass not drawn.")


def test_the_wheel_over_a_mask_that_is_all_there_scrolls_what_is_around_it(
    page: Page, server: Server
) -> None:
    """Catches: a page that stands still wherever the pointer is on the mask, and words below it that nobody finds."""
    page.set_viewport_size({"width": 1280, "height": 420})
    server.files["/traces/spec.json"] = json.dumps(tree_record([-1, 0, 1]))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    box = page.locator(".mask-box")
    box.scroll_into_view_if_needed()
    assert box.evaluate("box => box.scrollHeight <= box.clientHeight"), "nothing of its own to scroll"
    box.hover()
    moved = """() => { let all = document.scrollingElement.scrollTop;
      for (const one of shadow.querySelectorAll("*")) all += one.scrollTop; return all; }"""
    before = page.evaluate(moved)
    page.mouse.wheel(0, 120)
    page.wait_for_function(f"before => ({moved})() !== before", arg=before)


@pytest.mark.parametrize("width", [390, 1440])
def test_the_mask_stays_in_its_box(page: Page, server: Server, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    server.files["/traces/spec.json"] = json.dumps(tree_record(random_parents(64, 5)))
    open_player(page, cursor={"round": 1, "node": None, "view": "mask"})
    expect(page.locator(".mask-line")).to_have_count(65)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    sizes = page.evaluate(
        "() => [...shadow.querySelectorAll('.mask .mask-row > span, .mask-column, .mask p')]"
        ".map(word => parseFloat(getComputedStyle(word).fontSize))"
    )
    assert min(size for size in sizes if size) >= 12
    page.locator(".mask .zoom-button.fit").click()
    box = page.evaluate(
        "() => { const b = shadow.querySelector('.mask-box'); return [b.scrollWidth, b.clientWidth]; }"
    )
    assert box[0] <= box[1] + 1, "all columns at once"
