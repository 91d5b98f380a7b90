"""The tree of a round: where its nodes stand, what each moment shows of them, and moving through it."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import Server, open_player
from tests.player.samples import spec_trace
from tests.player.test_mask import random_parents, tree_record

pytestmark = pytest.mark.browser

LAYOUT = """async parents => {
  const { layoutOf } = await import('/player/model/tree.js');
  const layout = layoutOf(parents.map((parent, node) => ({ node, parent })));
  return { rows: layout.rows, columns: layout.columns, places: parents.map((_, node) => layout.places.get(node)) };
}"""
TREE = "() => shadow.querySelector('.strip').outerHTML"
PLACES = """() => [
  shadow.querySelector('.tree-field').style.cssText,
  shadow.querySelector('.tree .chip').parentElement.style.cssText.replace(/(left|top).*?px;/g, ''),
  shadow.querySelector('.odds').getBoundingClientRect().top,
  shadow.querySelectorAll('.tree .ghost').length,
]"""
BOTH = "() => ['.strip', '.mask'].map(part => shadow.querySelector(part).outerHTML).join('')"


# The nodes in whose upper right corner a flag lies.
FLAGGED = """() => {
  const svg = shadow.querySelector(".tree-overlay");
  const at = svg.getBoundingClientRect();
  const chips = [...shadow.querySelectorAll(".tree .chip")].map((chip) => [chip, chip.getBoundingClientRect()]);
  const drawn = svg.querySelector(".flags").getAttribute("d") ?? "";
  return [...drawn.matchAll(/M([-\\d.]+) ([-\\d.]+)h9v9z/g)].map(([, x, y]) => {
    const [right, top] = [at.left + Number(x) + 9, at.top + Number(y)];
    const within = ([, box]) => right < box.right && right > box.right - 9 && top > box.top && top < box.top + 9;
    return Number(chips.find(within)[0].dataset.node);
  });
}"""


def show(page: Page, server: Server, record: dict[str, Any], **cursor: Any) -> None:
    """Open the player on the record's first round."""
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None, **cursor})


def shapes() -> list[list[int]]:
    """Trees of many kinds: random, wide, deep, a chain, and one like a Medusa's."""
    chance = random.Random(7)
    made = [random_parents(chance.randrange(1, 80), seed) for seed in range(30)]
    made += [[-1] * 64, list(range(-1, 63)), [-1, *[0] * 63]]
    made.append([-1] * 10 + [0] * 8 + [1] * 4 + [2] * 2 + [10] * 6 + [18] * 3)
    return made


def test_no_two_nodes_stand_on_one_place_and_no_more_rows_than_leaves(page: Page) -> None:
    """Catches: nodes on top of each other, lines that cross, and the tall gaps of a row for every leaf below."""
    for parents in shapes():
        layout = page.evaluate(LAYOUT, parents)
        places = [(place["column"], place["row"]) for place in layout["places"]]
        assert len(set(places)) == len(places)
        leaves = len(parents) - len(set(parents) - {-1})
        assert layout["rows"] <= leaves
        assert all(0 <= row < layout["rows"] for _, row in places)
        for node, parent in enumerate(parents):
            assert places[node][0] == (1 if parent < 0 else places[parent][0] + 1)
        for one, first in enumerate(places):
            for other in range(one + 1, len(places)):
                if first[0] != places[other][0]:
                    continue
                above, below = (one, other) if first[1] < places[other][1] else (other, one)
                rows = [0 if parents[node] < 0 else places[parents[node]][1] for node in (above, below)]
                assert rows[0] <= rows[1], "lines between two levels cross"


FOLD = """async ([guesses, parent, width, height]) => {
  const { folded } = await import("/player/model/tree.js");
  const { acrossOf } = await import("/player/tree/tree_size.js");
  const across = acrossOf("auto", { width, height, scale: 1 }, guesses);
  const items = Array.from({ length: guesses }, (_, node) => ({ node, parent: node - 1 }));
  if (parent !== null) items.push({ node: "own", parent });
  if (!across) return across;
  const { places, rows } = folded(items, across);
  return [[...places.values()].map(({ column, row }) => `${row}.${column}`).join(" "), rows];
}"""


def test_a_long_chain_is_read_in_lines(page: Page) -> None:
    """Catches: guesses without their words, two in one place, lines that do not fit the box or change their number at
    the commit."""
    for parent, places in (
        (None, "0.0 0.1 0.2 0.3 0.4 1.1 1.2 1.3 1.4"),
        (7, "0.0 0.1 0.2 0.3 0.4 1.1 1.2 1.3 1.4 2.1"),  # a bonus
        (-1, "0.0 0.1 0.2 0.3 0.4 2.1 2.2 2.3 2.4 1.1"),
        (3, "0.0 0.1 0.2 0.3 0.4 1.1 1.2 1.3 1.4 2.1"),  # instead of the first in the second line
        (5, "0.0 0.1 0.2 0.3 0.4 1.1 1.2 1.3 1.4 2.3"),
    ):
        assert page.evaluate(FOLD, [8, parent, 540, 200]) == [places, 3]
    assert page.evaluate(FOLD, [8, 7, 1000, 200]) is None, "one line has room for the words"
    assert page.evaluate(FOLD, [8, 7, 540, 80]) is None, "so many lines have none"
    assert page.evaluate(FOLD, [8, 7, 300, 200]) is None


def test_the_layout_does_not_give_the_verdicts_away(page: Page, server: Server) -> None:
    """Catches: an accepted child that comes first before it is judged."""
    parents = random_parents(24, 3)
    places = []
    for accepted in (0, 23):
        verdicts = ["unreached"] * 24
        node = accepted
        while node >= 0:
            verdicts[node] = "accepted"
            node = parents[node]
        show(page, server, tree_record(parents, verdicts), step=0)
        places.append(
            page.locator(".tree .chip").evaluate_all(
                "all => all.map(({ parentElement: { style } }) => [style.left, style.top])"
            )
        )
    assert places[0] == places[1] and len(places[0]) == 24


@pytest.mark.parametrize(
    ("parents", "kept"),
    [
        ([-1, 0, 1, 2], 4),  # a bonus after a chain
        ([-1, 0, 1, 2], 1),  # a correction below its second guess
        ([-1, -1, 0, 0, 1, 2, 3], 2),
        ([-1, -1, 0, 0, 1, 2, 3], 0),
        ([-1, -1, 0, 0, 1, 2, 3], 3),
    ],
)
def test_the_targets_own_token_finds_room(page: Page, server: Server, parents: list[int], kept: int) -> None:
    """Catches: a tree that shrinks, and odds below it that jump, at the moment the target's own token appears."""
    path = [0, 1, 2, 3] if parents == [-1, 0, 1, 2] else [0, 2, 5]
    verdicts = ["accepted" if node in path[:kept] else "unreached" for node in range(len(parents))]
    sizes = []
    for step in (0, len(parents) + 2):
        show(page, server, tree_record(parents, verdicts), step=step)
        sizes.append(page.evaluate(PLACES))
    assert sizes[0][:3] == sizes[1][:3] and [size[3] for size in sizes] == [0, 1]


def test_each_moment_shows_what_it_knows_and_no_more(page: Page, server: Server) -> None:
    """Catches: p before the pass, a verdict before its coin, the target's token before the commit."""
    record = tree_record([-1, -1, 0, 2, 2], ["accepted", "rejected", "accepted", "rejected", "unreached"])
    nodes = record["rounds"][0]["nodes"]
    nodes["p"] = [0.811, 0.812, 0.813, 0.814, 0.815]
    nodes["q"] = nodes["model_q"] = [0.311, 0.312, 0.313, 0.314, 0.315]
    nodes["rank"] = [1, 2, 1, 2, 3]
    order = [0, 1, 2, 3]  # level by level, earlier siblings first
    for step in range(7):
        show(page, server, record, step=step)
        html = page.evaluate(TREE)
        for node in range(5):
            chip = page.locator(f".tree [data-node='{node}']")
            judged = order[: max(0, step - 1)] if step < 6 else range(5)
            verdict = nodes["verdict"][node] if node in judged else "waiting"
            assert verdict in str(chip.get_attribute("class")).split(), (step, node)
            assert (f"p 0.81{node + 1}" in html) == (step > 0) and f"q 0.31{node + 1}" in html
        drawn = page.locator(".tree-overlay .p").get_attribute("d") or ""
        assert drawn.count("M") == (5 if step else 0), "the bars know p"
        assert page.evaluate(FLAGGED) == ([0, 2] if step else [])
        assert ("OWN" in html) == (step == 6)
        band = page.locator(".tree .route").get_attribute("d") or ""
        assert band.count("M") == sum(
            1 for node in order[: max(0, step - 1)] if nodes["verdict"][node] == "accepted"
        )
    own = page.locator(".tree .chip.ghost")
    expect(own).to_have_attribute("aria-label", "‘\u00a0OWN’, the target's correction, after ‘\u00a0w2’")


@pytest.mark.parametrize(("likeliest", "first"), [(900, True), (500, False)])
def test_the_targets_own_token_is_flagged_where_it_is_its_first_choice(
    page: Page, server: Server, likeliest: int, first: bool
) -> None:
    """Catches: the flag missing at temperature 0 on the token that replaced a guess, or on one that was drawn."""
    record = tree_record([-1], ["rejected"])
    head = {"id": [likeliest, 0], "prob": [0.75, 0.125], "tail": 0.125}
    record["rounds"][0]["positions"] = [{"at": -1, "token": 900, "source": "corrected", "p": head}]
    show(page, server, record)
    own = page.locator(".tree .ghost")
    assert page.evaluate(FLAGGED) == ([-1] if first else [])
    assert ("first choice" in (own.get_attribute("aria-label") or "")) == first


def test_what_was_pruned_is_there_before_the_check(page: Page, server: Server) -> None:
    """Catches: guesses that are drawn as pruned only after the verdicts, as if these had pruned them."""
    show(page, server, tree_record([-1, -1, 0], ["accepted", "pruned", "unreached"]), step=0)
    expect(page.locator(".tree .chip.pruned")).to_have_count(1)
    expect(page.locator(".tree .chip.waiting")).to_have_count(2)


def test_at_temperature_zero_the_tree_shows_what_the_likeliest_token_was_taken_from(
    page: Page, server: Server
) -> None:
    """Catches: zeros and ones, or probabilities before a penalty beside a rank after it."""
    record = tree_record([-1, -1], ["accepted", "unreached"])
    record["header"]["settings"]["temperature"] = 0.0
    nodes = record["rounds"][0]["nodes"]
    nodes |= {
        "p": [1.0, 0.0],
        "q": [1.0, 1.0],
        "rank": [1, 2],
        "model_p": [0.311, 0.612],
        "model_q": [0.321, 0.622],
    }
    show(page, server, record, step=1)
    assert {"p 0.311", "q 0.321", "p 0.612", "q 0.622"} <= set(
        re.findall(r"[pq] 0\.\d+", page.evaluate(TREE))
    )
    nodes |= {"penalised_p": [0.431, 0.212], "penalised_q": [0.441, 0.222]}
    show(page, server, record, step=1)
    assert set(re.findall(r"[pq] 0\.\d+", page.evaluate(TREE))) == {
        "p 0.431",
        "q 0.441",
        "p 0.212",
        "q 0.222",
    }


@pytest.mark.parametrize("view", ["tree", "mask"])
def test_forward_and_back_draw_the_same(page: Page, view: str) -> None:
    open_player(page, cursor={"round": 0, "node": None, "view": view})
    page.locator(".player").focus()
    seen = [page.evaluate(BOTH)]
    for _ in range(24):
        page.keyboard.press("ArrowRight")
        seen.append(page.evaluate(BOTH))
    assert len(set(seen)) == len(seen)
    for expected in reversed(seen[:-1]):
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(BOTH) == expected


def test_lines_are_as_wide_as_the_draft_was_sure_else_as_the_target_was(page: Page, server: Server) -> None:
    record = tree_record([-1, -1])
    nodes = record["rounds"][0]["nodes"]
    nodes["q"] = nodes["model_q"] = [0.75, 0.25]
    nodes["p"] = [0.125, 0.5]
    widths = """all => all.filter(line => line.getAttribute('d'))
        .map(line => [line.getAttribute('stroke-width'), line.getAttribute('d').split('M').length - 1])
        .sort((one, other) => other[0] - one[0])"""
    lines = page.locator(".tree .edge:not(.corrected)")
    show(page, server, record, step=0)
    assert lines.evaluate_all(widths) == [["7.0", 1], ["3.0", 1]]
    expect(page.locator(".tree-legend")).to_contain_text("line width: proposer's q")
    nodes["model_q"], nodes["q"] = [None, None], [1.0, 1.0]
    show(page, server, record, step=0)
    assert lines.evaluate_all(widths) == [[None, 2]]
    show(page, server, record, step=1)
    assert lines.evaluate_all(widths) == [["5.0", 1], ["2.0", 1]]
    expect(page.locator(".tree-legend")).to_contain_text("line width: target's p")


# Of every bar of a kind: the node it lies in, its share of what the node's sides leave in %, and px above its border.
BARS = """name => {
  const svg = shadow.querySelector(".tree-overlay");
  const at = svg.getBoundingClientRect();
  const chips = [...shadow.querySelectorAll(".tree .chip")].map((chip) => {
    const { left, top, width, height } = chip.getBoundingClientRect();
    const border = parseFloat(getComputedStyle(chip).borderBottomWidth);
    return { node: Number(chip.dataset.node), left: left - at.left, top: top - at.top, width, height, border };
  });
  const drawn = svg.querySelector(name).getAttribute("d") ?? "";
  return [...drawn.matchAll(/M([-\\d.]+) ([-\\d.]+)h([\\d.]+)/g)].map(([, x, y, length]) => {
    const within = (one) => x > one.left && x < one.left + one.width && y > one.top && y < one.top + one.height;
    const chip = chips.find(within);
    const room = chip.width - 2 * (chip.border + 5);
    return [chip.node, Math.round((100 * length) / room), chip.top + chip.height - chip.border - y];
  }).sort((one, other) => one[0] - other[0]);
}"""


@pytest.mark.parametrize("source", ["corrected", "bonus"])
def test_bars_lie_along_the_lower_edge_of_their_node(page: Page, server: Server, source: str) -> None:
    """Catches: bars beside their node, over its border, or of another length, whatever border its verdict gives it."""
    kinds = ["accepted", "accepted" if source == "bonus" else "rejected", "unreached"]
    record = tree_record([-1, 0, 0], kinds)
    nodes = record["rounds"][0]["nodes"]
    nodes["p"] = nodes["model_p"] = [0.9, 0.5, 0.2]
    nodes["q"] = nodes["model_q"] = [0.6, 0.4, 0.0]
    head = {"id": [900, 0], "prob": [0.75, 0.125], "tail": 0.125}
    at = 1 if source == "bonus" else 0
    record["rounds"][0]["positions"] = [{"at": at, "token": 900, "source": source, "p": head}]
    record["rounds"][0]["committed"]["source"][-1] = source
    show(page, server, record)
    expect(page.locator(f".tree .chip.{source}")).to_have_count(1)
    shares = {".p": {-1: 75, 0: 90, 1: 50, 2: 20}, ".q": {0: 60, 1: 40}}
    for name, wanted in shares.items():
        found = page.evaluate(BARS, name)
        assert [node for node, _, _ in found] == list(wanted)
        for node, share, above in found:
            assert abs(share - wanted[node]) <= 1, (name, node, share)
            assert above == pytest.approx(4 if name == ".p" else 2, abs=0.2), (name, node, above)


def test_arrow_keys_go_to_parent_child_and_neighbours(page: Page, server: Server) -> None:
    show(page, server, tree_record([-1, -1, 0, 0, 1]), step=1, node=0)
    page.locator(".tree [data-node='0']").focus()
    for key, node in (
        ("ArrowRight", "2"), ("ArrowDown", "3"), ("ArrowDown", "4"), ("ArrowDown", "4"), ("ArrowLeft", "1"),
        ("ArrowUp", "0"), ("ArrowUp", "0"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate("shadow.activeElement.dataset.node") == node, key
        expect(page.locator(".tree .selected")).to_have_attribute("data-node", node)
    stops = page.locator(".tree .chip").evaluate_all(
        "all => all.flatMap(c => (c.tabIndex === 0 ? [c.dataset.node] : []))"
    )
    assert stops == ["0"], "one stop of the tab key"


def test_zoom_by_button_key_and_wheel_never_shrinks_the_type(page: Page, server: Server) -> None:
    show(page, server, tree_record(random_parents(64, 11)))
    box = (
        "(b => [b.scrollWidth, b.scrollHeight, b.clientWidth, b.clientHeight])(shadow.querySelector('.tree'))"
    )
    sizes = (
        "all => all.filter(w => w.getClientRects().length).map(w => parseFloat(getComputedStyle(w).fontSize))"
    )
    begun = page.evaluate(box)
    for name in ("full", "fit"):
        for _ in range(2):
            page.locator(f".strip .zoom-button.{name}").click()
        assert page.evaluate(box) == begun, "pressed again, a view gives way to the one before"
    page.locator(".strip .zoom-button.full").click()
    full = page.evaluate(box)
    assert full[0] > full[2] or full[1] > full[3]
    page.locator(".strip .zoom-button.fit").click()
    fitted = page.evaluate(box)
    assert fitted[0] <= fitted[2] + 1 and fitted[1] <= fitted[3] + 1
    assert min(page.locator(".tree span").evaluate_all(sizes)) >= 12
    page.locator(".tree .chip").first.focus()
    page.keyboard.press("+")
    larger = page.evaluate(box)
    assert larger[1] > fitted[1]
    page.locator(".tree").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(f"height => {box}[1] > height", arg=larger[1])


def test_many_pruned_guesses_are_folded(page: Page, server: Server) -> None:
    verdicts = ["accepted", "rejected", *["pruned"] * 20]
    show(page, server, tree_record([-1, -1, *[0] * 20], verdicts))
    expect(page.locator(".tree .chip")).to_have_count(3)
    page.get_by_role("button", name="Show 20 pruned guesses as well").click()
    expect(page.locator(".tree .chip.pruned")).to_have_count(20)
    page.get_by_role("button", name="Hide 20 pruned guesses").click()
    expect(page.locator(".tree .chip")).to_have_count(3)
    show(page, server, tree_record([-1, -1, *[0] * 20], verdicts), node=7)
    expect(page.locator(".tree .chip.selected")).to_have_attribute("data-node", "7")


def test_a_hostile_tree_is_text_or_folded(page: Page, server: Server) -> None:
    record = tree_record([-1] * 4096)
    record["rounds"][0]["nodes"]["parent"][:4] = [99, -7, "x", None]
    record["texts"]["504"] = "<img src=x onerror=alert(1)>"
    show(page, server, record)
    assert page.evaluate("shadow.querySelectorAll('img, script').length") == 0
    expect(page.locator(".tree [data-node='4'] .chip-text")).to_have_text("<img src=x onerror=alert(1)>")
    expect(page.locator(".tree .chip")).to_have_count(513)
    expect(page.locator(".strip")).to_contain_text("3584 more guesses not drawn")
    deep = tree_record(list(range(-1, 4095)))
    show(page, server, deep)
    expect(page.locator(".tree .chip")).to_have_count(513)


def test_a_chain_keeps_all_its_numbers(page: Page) -> None:
    trace = spec_trace()
    open_player(page, cursor={"round": 1, "node": None})
    assert page.locator(".tree").get_attribute("data-detail") == "full"
    said = page.locator(".tree .chip-facts").all_inner_texts()
    nodes, own = trace.rounds[0].nodes, trace.rounds[0].positions[-1]
    assert nodes.p is not None and nodes.q is not None and own.source == "corrected"
    assert [each.split() for each in said if each] == [
        *(["p", f"{p:.3f}", "q", f"{q:.3f}"] for p, q in zip(nodes.p, nodes.q, strict=True)),
        [
            "p",
            f"{own.p.prob[own.p.id.index(own.token)]:.3f}",
        ],  # the target's own token: the same p as the guesses'
    ]


def test_numbers_come_with_the_size_that_has_room_for_them(page: Page, server: Server) -> None:
    """Catches: nodes without numbers after zooming in, old ones left in nodes that show none."""
    record = tree_record([-1] * 3 + [0] * 3)
    record["texts"]["504"] = " a rather long word"
    show(page, server, record)
    tree = page.locator(".tree")
    tree.locator(".chip").first.focus()
    for key, detail in (
        ("-", "mark"),
        ("+", "text"),
        ("+", "full"),
        ("-", "text"),
        ("-", "mark"),
        ("+", "full"),
    ):
        for _ in range(30):
            if tree.get_attribute("data-detail") == detail:
                break
            page.keyboard.press(key)
        expect(tree).to_have_attribute("data-detail", detail)
        said = [bool(each) for each in tree.locator(".chip:not(.ghost) .chip-facts").all_text_contents()]
        assert said == [detail == "full"] * 6, (detail, said)
        bars = tree.locator(".tree-overlay .p").get_attribute("d") or ""
        assert bars.count("M") == (0 if detail == "mark" else 6), (detail, bars)
    for _ in range(30):
        page.keyboard.press("-")
    widths = tree.locator(".chip:not(.ghost)").evaluate_all("all => all.map(one => one.offsetWidth)")
    assert len(set(widths)) == 1, "a word that is not shown needs no room"


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_node_says_what_its_own_q_is(page: Page, server: Server, temperature: float) -> None:
    """Catches: “own q” above temperature 0, which nothing on the page explains."""
    record = tree_record([-1, -1])
    record["header"]["settings"].update(proposer="eagle", temperature=temperature)
    nodes = record["rounds"][0]["nodes"]
    nodes["q"], nodes["model_q"] = [1.0, 1.0], [0.75, 0.25]
    show(page, server, record)
    chip = page.locator(".tree [data-node='0']")
    title = chip.get_attribute("title") or ""
    assert ("counts its q as 1" in title and "How sure the models were" in title) == (temperature > 0), title
    assert "counts" not in (
        chip.get_attribute("aria-label") or ""
    )  # read out at every node, it would be too long
    expect(page.locator(".help-box dt", has_text="own q")).to_have_count(1)


def test_on_a_projector_the_nodes_grow_with_the_type(page: Page) -> None:
    """Catches: "proud" as "pro…" and a q below the edge, because the boxes stay small while the type grows."""
    open_player(page, cursor={"round": 1, "node": None})
    page.add_style_tag(content=":root { font-size: 27px }")
    page.wait_for_function("shadow.querySelector('.tree .chip').offsetHeight > 90")  # 59 px at 16
    for part in ("chip-text", "chip-facts"):
        cut = page.locator(f".tree .{part}").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight).length"
        )
        assert cut == 0, part
    inside = page.locator(".tree .chip").evaluate_all(
        """all => all.every(chip => [...chip.querySelectorAll('.chip-facts span')].every(
             said => said.getBoundingClientRect().bottom <= chip.getBoundingClientRect().bottom))"""
    )
    assert inside


def test_what_is_drawn_below_a_resting_pointer_is_not_lit(page: Page, server: Server) -> None:
    """Catches: a ring around the guess that happens to be drawn where Run was pressed."""
    open_player(page, cursor={"round": 1, "node": None})
    chip = page.locator(".tree .chip").first
    box = chip.bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    expect(chip).to_have_class(re.compile(r"\blit\b"))
    open_player(page, cursor={"round": 1, "node": None})
    page.wait_for_timeout(300)
    expect(page.locator(".lit")).to_have_count(0)
    page.mouse.move(box["x"] + 22, box["y"] + 10)
    expect(chip).to_have_class(re.compile(r"\blit\b"))


@pytest.mark.parametrize("width", [1440, 1100])
def test_a_long_word_gets_the_room_that_short_ones_leave(page: Page, server: Server, width: int) -> None:
    """Catches: "phenome…" beside a third of the box empty, and columns that move when the target's token comes."""
    page.set_viewport_size({"width": width, "height": 900})
    record = json.loads(spec_trace().to_json())
    first = record["rounds"][0]["nodes"]["token"][0]
    record["texts"][str(first)] = " phenomenon"
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None})
    word = page.locator(".tree [data-node='0'] .chip-text")
    assert word.evaluate("word => word.textContent === ' phenomenon' && word.scrollWidth <= word.clientWidth")
    chips = ".tree .chip:not(.ghost)"
    places = "all => all.map(chip => [chip.getBoundingClientRect().left, chip.getBoundingClientRect().right])"
    whole = page.locator(chips).evaluate_all(places)
    for (_, right), (left, _) in pairwise(whole):
        assert right < left
    page.keyboard.press("ArrowLeft")
    assert page.locator(chips).evaluate_all(places) == whole
