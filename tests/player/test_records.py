"""Records of every kind: damaged ones, ones that lack something, wide trees, rules other than the usual one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import COMMITTED, Server, open_player, stop_at
from tests.player.samples import WORDS, branching_record, spec_trace

pytestmark = pytest.mark.browser


def test_temperature_zero_shows_the_models_own_odds_first(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = spec_trace(temperature=0.0).to_json()
    open_player(page, cursor={"round": 1, "node": 0})
    expect(page.locator(".tab[aria-pressed=true]")).to_have_text("How sure the models were")
    page.get_by_role("button", name="What was compared").click()
    expect(page.locator(".odds")).to_contain_text("At temperature 0 the rule sees")


def test_a_record_without_probabilities_says_so(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = spec_trace(full=False).to_json()
    open_player(page, cursor={"round": 1, "node": 1})
    expect(page.locator(".odds")).to_contain_text("holds only the tokens")
    assert page.evaluate(COMMITTED, 1) != ""


def test_a_record_without_rounds_shows_its_text(page: Page, server: Server) -> None:
    record = json.loads(spec_trace().to_json())
    record["rounds"] = []
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page)
    assert page.locator(".leads .rest").text_content() == spec_trace().text


def test_markup_in_tokens_is_text(page: Page) -> None:
    open_player(page)
    assert page.evaluate("shadow.querySelectorAll('script, img').length") == 0
    text = page.evaluate(COMMITTED, 1)
    for word in WORDS[12:14]:
        assert word in text
    stop_at(page, 8)
    page.locator(".chips [data-node='0']").click()
    expect(page.locator(".odds-title")).to_contain_text("<img src=x onerror=alert(2)>")


@pytest.mark.parametrize(
    "hurt",
    [
        {"rounds": None},
        {"rounds": [None, {"nodes": {"token": [1, 2], "parent": [7, "x"], "verdict": ["__proto__", None]}}]},
        {"output": None, "texts": None, "header": None, "stats": None},
        {
            "rounds": [
                {
                    "start_s": "NaN",
                    "committed": {"token": [1], "source": ["constructor"]},
                    "positions": [None, 3],
                }
            ]
        },
    ],
)
def test_a_damaged_trace_does_not_break_the_page(page: Page, server: Server, hurt: dict[str, object]) -> None:
    server.files["/traces/spec.json"] = json.dumps({**json.loads(spec_trace().to_json()), **hurt})
    open_player(page)
    for stop in (0, 1, 2, 3):
        stop_at(page, stop)
    page.locator(".player").focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
    expect(page.locator(".lane")).to_have_count(2)


def test_a_tree_hangs_each_rejected_branch_where_it_died(page: Page, server: Server) -> None:
    record = json.loads(spec_trace(full=False).to_json())
    record["rounds"][0]["nodes"].update(
        parent=[-1, -1, 0, 0, 1, 2],
        depth=[1, 1, 2, 2, 2, 3],
        token=[0, 4, 1, 5, 6, 7],
        verdict=["accepted", "rejected", "accepted", "pruned", "unreached", "rejected"],
    )
    record["rounds"][0]["committed"] = {"token": [0, 1, 3], "source": ["accepted", "accepted", "corrected"]}
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None})
    hangs = page.locator(".leads .round").first.locator(".spot")
    nodes = hangs.evaluate_all(
        "all => all.map(s => [...s.querySelectorAll('.prop')].map(p => Number(p.dataset.node)))"
    )
    assert nodes == [[1], [5]]
    expect(page.locator(".chips .chip")).to_have_count(7)


@pytest.mark.parametrize("width", [390, 1440])
def test_a_large_tree_is_drawn_without_overlaps_and_scrolls_within_itself(
    page: Page, server: Server, width: int
) -> None:
    """Catches: chips on top of each other, a tree that widens the page, and a node that cannot be selected."""
    page.set_viewport_size({"width": width, "height": 900})
    server.files["/traces/spec.json"] = json.dumps(branching_record(wide=24, deep=3))
    open_player(page, cursor={"round": 1, "node": None})
    boxes = page.locator(".tree .chip").evaluate_all(
        "all => all.map(c => c.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"
    )
    assert len(boxes) == 24 * 4 + 2 + 1  # and the target's own token
    for one, first in enumerate(boxes):
        for other in boxes[one + 1 :]:
            apart = (
                first[2] <= other[0] or other[2] <= first[0] or first[3] <= other[1] or other[3] <= first[1]
            )
            assert apart, (first, other)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate("shadow.querySelector('.tree').clientHeight") < 480
    page.locator(".tree [data-node='97']").click()  # the discarded one
    expect(page.locator(".odds")).to_contain_text("It was never judged")


def test_pruned_and_discarded_guesses_have_their_own_marks_and_are_not_counted_as_proposed(
    page: Page, server: Server
) -> None:
    """Catches: a mark without glyph or texture, and a sentence that counts what the target never saw."""
    server.files["/traces/spec.json"] = json.dumps(branching_record(wide=2, deep=2))
    open_player(page, cursor={"round": 1, "node": None})
    for verdict, glyph in (("pruned", "–"), ("discarded", "∅")):
        chip = page.locator(f".chip.{verdict}")
        expect(chip.locator(".mark")).to_have_text(glyph)
        assert chip.evaluate("c => getComputedStyle(c).backgroundImage") != "none"
        expect(page.locator(f".legend [data-verdict={verdict}]")).to_be_visible()
    expect(page.locator(".legend [data-verdict=cut]")).to_be_hidden()
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text(
        "guessed 7 tokens, of which the target read 6; it accepted 1, rejected"
    )
    expect(transcript).to_contain_text("1 token drafted ahead came to nothing.")
    expect(transcript).to_contain_text("The pass included 7 extra tokens.")
    expect(transcript).to_contain_text("ran alongside the check for 4.2 ms.")


def test_a_lossy_rule_is_named_and_nothing_lossless_is_said_of_it(page: Page, server: Server) -> None:
    """Catches: the note that greedy thresholds are 0 or 1, and the formula of another rule, at a rule that bends."""
    record = json.loads(spec_trace(temperature=0.0).to_json())
    record["header"]["settings"]["rule"] = "bent"
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(
        page, cursor={"round": 1, "node": 2}, rules={"bent": {"title": "Bent rule", "lossless": False}}
    )
    expect(page.locator(".score .lossy")).to_contain_text(
        "The rule “Bent rule” changes the target's distribution"
    )
    expect(page.locator(".coin")).to_contain_text("The threshold is set by the rule “Bent rule”.")
    assert "max(0, p − q)" not in page.locator(".odds").inner_text()
    server.files["/traces/spec.json"] = spec_trace().to_json()
    open_player(page, rules={"speculative-sampling": {"title": "Speculative sampling", "lossless": True}})
    expect(page.locator(".score .lossy")).to_be_hidden()


def test_many_pruned_guesses_wait_behind_a_button(page: Page, server: Server) -> None:
    """Catches: a tree of hundreds of guesses that buries the accepted path, and pruned ones that cannot be seen."""
    record = branching_record(wide=3, deep=1)
    nodes = record["rounds"][0]["nodes"]
    size = len(nodes["token"])
    for name, column in nodes.items():
        if column is not None:
            filling = {"parent": 0, "depth": 2, "token": 1, "verdict": "pruned"}.get(name)
            nodes[name] = [*column, *[filling] * 40]
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "node": None})
    expect(page.locator(".tree .chip")).to_have_count(size)  # all but one, and the target's own token
    page.get_by_role("button", name="Show 41 pruned guesses as well").click()
    expect(page.locator(".tree .chip")).to_have_count(size + 41)


def odds_text(page: Page, server: Server, record: dict[str, Any], node: int, *, lossless: bool = True) -> str:
    """What the odds panel says of a node of round 1 of `record`."""
    server.files["/traces/spec.json"] = json.dumps(record)
    rule = record["header"]["settings"]["rule"]
    rules = {rule: {"title": f"Rule {rule}", "lossless": lossless}}
    open_player(page, cursor={"round": 1, "node": node}, rules=rules)
    return str(page.locator(".odds").inner_text())


def test_a_token_that_a_later_one_took_along_is_not_called_rejected(page: Page, server: Server) -> None:
    """Catches: the word from the coin where a rule that keeps the longest prefix has another verdict."""
    record = json.loads(spec_trace().to_json())
    record["header"].update(judging="longest")
    record["header"]["settings"]["rule"] = "block"
    nodes = record["rounds"][0]["nodes"]
    assert nodes["verdict"] == ["accepted", "accepted", "rejected"]
    nodes["coin"][0], nodes["threshold"][0] = 0.88, 0.039
    said = odds_text(page, server, record, 0)
    assert (
        "not below the threshold 0.039, but a later token passed, and this one is kept with it: accepted."
        in said
    )
    assert "rejected." not in said
    said = odds_text(page, server, record, 1)
    assert "is below the threshold 1: accepted." in said and "min(1, p/q)" not in said
    nodes["verdict"] = ["rejected", "unreached", "unreached"]
    record["rounds"][0]["positions"] = record["rounds"][0]["positions"][:1]
    assert "Its coin failed" in odds_text(page, server, record, 1)


def test_a_coin_s_zones_are_named_only_where_its_own_can_be(page: Page, server: Server) -> None:
    """Catches: “rejected” as the only word on the ruler of a guess that was accepted by a narrow chance."""
    record = json.loads(spec_trace().to_json())
    nodes = record["rounds"][0]["nodes"]
    assert nodes["verdict"][0] == "accepted"
    for coin, threshold, named in ((0.2, 0.5, 2), (0.04, 0.1, 0)):
        nodes["coin"][0], nodes["threshold"][0] = coin, threshold
        odds_text(page, server, record, 0)
        expect(page.locator(".coin .axis .zone-name")).to_have_count(named)
        assert page.locator(".coin .axis .zone-word").count() == 2, "signs in both"


def test_a_rule_with_a_bar_shows_the_bar_and_no_coin(page: Page, server: Server) -> None:
    """Catches: u against a threshold of 0 or 1 that no coin decided, and one-hot words where p was the model's own."""
    record = json.loads(spec_trace(temperature=0.0).to_json())
    record["header"]["own_probabilities"] = True
    settings = record["header"]["settings"]
    settings.update(rule="typical", rule_options={"epsilon": 0.2, "delta": 0.5})
    for row in record["rounds"]:
        nodes = row["nodes"]
        nodes["threshold"] = [{"accepted": 1, "rejected": 0}.get(word) for word in nodes["verdict"]]
    last = record["rounds"][0]["positions"][-1]
    last["residual"], last["draw"] = last["p"], None
    said = odds_text(page, server, record, 2, lossless=False)
    assert page.locator(".axis").count() == 0 and "min(0.200, 0.500·exp(−H)) = 0.143" in said  # H = 1.25
    assert "p = 0.500: rejected." in said and "no coin decided" in said
    assert "p = 1 for the target" not in said and "draws" not in said and "passes" not in said
    assert "p unchanged" in said and "the most likely token of this is taken" in said
    settings.update(rule="confidence", rule_options={"reading": "draft", "threshold": 0.4})
    assert "averaged, is at least the threshold 0.400" in odds_text(page, server, record, 0, lossless=False)
    record["rounds"][0]["nodes"]["threshold"][0] = 0.5  # the coin had a say after all
    odds_text(page, server, record, 0, lossless=False)
    assert page.locator(".axis").count() == 1


def test_where_siblings_were_rejected_the_residual_is_not_that_of_one(page: Page, server: Server) -> None:
    """Catches: norm(max(0, p − q)) as the distribution after two rejections, and an overlap said of every sibling."""
    record = branching_record(wide=3, deep=0)
    nodes = record["rounds"][0]["nodes"]
    nodes["verdict"] = ["rejected", "rejected", "rejected", *nodes["verdict"][3:]]
    nodes["parent"][3:] = [-1, -1]
    nodes["depth"][3:] = [1, 1]
    record["rounds"][0]["committed"] = {"token": [3], "source": ["corrected"]}
    position = record["rounds"][0]["positions"][-1]
    record["rounds"][0]["positions"] = [{**position, "at": -1, "q": position["p"], "overlap": 0.6}]
    said = odds_text(page, server, record, -1)
    assert "After 3 rejections" in said and "took its share of p in turn" in said
    assert "draws from max(0, p" not in said and "how likely the first guess here is to be accepted" in said
    chain = odds_text(page, server, json.loads(spec_trace().to_json()), 2)
    assert "max(0, p − q), scaled to sum to 1" in chain
