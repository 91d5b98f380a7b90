"""Walking through a finished run."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import COMMITTED, SERIALISED, Server, data, open_player, stop_at
from tests.player.samples import plain_trace, spec_plans, spec_trace

pytestmark = pytest.mark.browser


def test_shows_exactly_the_committed_text(page: Page) -> None:
    open_player(page)
    expect(page.locator(".lane")).to_have_count(2)
    assert page.evaluate(COMMITTED, 0) == plain_trace().text
    assert page.evaluate(COMMITTED, 1) == spec_trace().text
    assert "Write a story." in page.locator(".lane .prompt").first.inner_text()


def test_marks_show_each_verdict(page: Page) -> None:
    trace = spec_trace()
    open_player(page)
    for source in ("accepted", "corrected", "bonus", "plain"):
        expected = sum(row.committed.source.count(source) for row in trace.rounds)
        expect(page.locator(f".leads .tok.{source}")).to_have_count(expected)
    rejected = sum(row.nodes.verdict.count("rejected") for row in trace.rounds)
    expect(page.locator(".leads .prop.rejected")).to_have_count(rejected)


def test_back_is_the_same_as_forth(page: Page) -> None:
    open_player(page, cursor={"round": 0, "node": None})
    last = int(page.locator(".slider").get_attribute("max") or 0)
    assert last >= len(spec_trace().rounds)
    seen = []
    for stop in range(last + 1):
        stop_at(page, stop)
        seen.append(page.evaluate(SERIALISED))
    assert len(set(seen)) == last + 1
    for stop in reversed(range(last + 1)):
        stop_at(page, stop)
        assert page.evaluate(SERIALISED) == seen[stop], f"stop {stop}"


def test_nothing_later_than_the_cursor_is_in_the_page(page: Page, server: Server) -> None:
    """Every token gets a name of its own, so that a leak cannot hide behind a repeated word."""
    for name, trace in (("plain", plain_trace()), ("spec", spec_trace())):
        record = json.loads(trace.to_json())
        record["texts"] = {}
        at = 0
        for number, row in enumerate(record["rounds"]):
            for column in (row["nodes"]["token"], row["committed"]["token"]):
                for place, _ in enumerate(column):
                    column[place] = 1000 + at
                    record["texts"][str(1000 + at)] = f"{name}#{number}."
                    at += 1
            row["positions"] = []
        done = [record["texts"][str(id)] for row in record["rounds"] for id in row["committed"]["token"]]
        record["output"]["texts"] = done
        server.files[f"/traces/{name}.json"] = json.dumps(record)
    open_player(page, cursor={"round": 0, "node": None})
    rounds = [row.end_s for row in spec_trace().rounds]
    plain = [row.end_s for row in plain_trace().rounds]
    for stop in range(len(rounds) + 1):
        stop_at(page, stop)
        html = page.evaluate(SERIALISED)
        clock = rounds[stop - 1] if stop else 0.0
        for number in range(len(rounds)):
            assert (f"spec#{number}." in html) == (number < stop), f"round {number} at stop {stop}"
        for number, end in enumerate(plain):
            assert (f"plain#{number}." in html) == (end <= clock + 1e-12), (
                f"plain token {number} at stop {stop}"
            )


def test_plain_lane_finishes_at_the_end(page: Page) -> None:
    open_player(page)
    expect(page.locator(".where")).to_have_text("The end: every lane has finished")
    page.locator(".player").press("1")  # the lane that is busy to the end
    expect(page.locator(".where")).to_have_text("The end: every lane has finished")
    page.locator(".player").press("2")
    page.locator(".control.previous").click()
    expect(page.locator(".where")).to_have_text("Round 12 of 12")
    assert plain_trace().text.startswith(page.evaluate(COMMITTED, 0))
    assert page.evaluate(COMMITTED, 0) != plain_trace().text


def test_a_stopped_run_is_not_called_finished(page: Page, server: Server) -> None:
    """Catches: "every lane has finished" over a run that somebody stopped."""
    expect_end = page.locator(".where")
    open_player(page)
    expect(expect_end).to_have_text("The end: every lane has finished")
    server.files["/traces/plain.json"] = replace(plain_trace(), end="cancelled").to_json()
    open_player(page)
    expect(expect_end).to_have_text("The end: the run was stopped")


def test_a_selected_earlier_token_leaves_the_cursor_s_round_as_it_is(page: Page) -> None:
    """Catches: "committed" on the slider of a round that is only proposed, and guesses that vanish from the lane."""
    open_player(page, cursor={"round": 3, "node": None, "step": 1})
    where, drafted = page.locator(".where"), page.locator(".leads .draft .guess")
    expect(where).to_have_text("Round 3 of 12: read by the target")
    guesses = drafted.count()
    assert guesses
    for lane, named in ((".leads", False), (".lane:not(.leads)", True)):
        page.locator(f"{lane} .tok").first.click()
        expect(page.locator(".odds-title")).to_contain_text("The")
        expect(where).to_have_text("Round 3 of 12: read by the target")
        assert drafted.count() == guesses
        # the tree beside it shows the leading lane
        expect(page.locator(".odds-where")).to_be_visible(visible=named)


def test_a_sentence_about_an_earlier_round_says_that_one_looks_back(page: Page) -> None:
    """Catches: "Round 1" above a slider at round 5, and nothing that says why."""
    open_player(page, cursor={"round": 5, "node": None})
    said = page.locator(".transcript")
    expect(said).to_contain_text(re.compile("^Round 5: "))
    page.locator(".leads .tok[data-node]").first.click()
    expect(said).to_contain_text(re.compile("^Looking back from round 5. Round 1: "))
    page.keyboard.press("Escape")
    expect(said).to_contain_text(re.compile("^Round 5: "))


# The odds of a node that is selected, as the elements hold them.
ODDS = """node => {
  shadow.querySelector(`.chips [data-node="${node}"]`).click();
  const all = selector => [...shadow.querySelectorAll(selector)];
  const rows = (inside, name) => Object.fromEntries(all(`${inside} .bar-row`).map(
    row => [row.dataset.token, Number(row.querySelector(`[data-name=${name}]`)?.dataset.value ?? NaN)]));
  const coin = shadow.querySelector('.coin');
  return {
    facts: Object.fromEntries(all('.facts dd').map(each => [each.dataset.name, each.dataset.value])),
    p: rows('.odds-main > .bars', 'p'), q: rows('.odds-main > .bars', 'q'), residual: rows('.residual', 'residual'),
    coin: coin && [Number(coin.dataset.coin), Number(coin.dataset.threshold), coin.textContent],
  };
}"""


def test_odds_are_those_of_the_trace(page: Page) -> None:
    trace = spec_trace()
    open_player(page)
    for row in trace.rounds:
        stop_at(page, row.index + 1)
        for node, verdict in enumerate(row.nodes.verdict):
            seen = page.evaluate(ODDS, node)
            position = next((item for item in row.positions if item.at == row.nodes.parent[node]), None)
            if verdict == "unreached":
                assert position is None or position.token != row.nodes.token[node]
                assert seen["facts"]["p"] == str(row.nodes.p[node])
                continue
            assert position is not None
            for name, head in (("p", position.p), ("q", position.q)):
                for id, value in zip(head.id, head.prob, strict=True):
                    assert seen[name][str(id)] == pytest.approx(value, abs=1e-7)
            coin, threshold, said = seen["coin"]
            assert coin == row.nodes.coin[node]
            assert threshold == row.nodes.threshold[node]
            assert ("accepted." if verdict == "accepted" else "rejected.") in said
        if "rejected" in row.nodes.verdict:
            seen = page.evaluate(ODDS, -1)["residual"]
            residual = row.positions[-1].residual
            assert residual is not None
            for id, value in zip(residual.id, residual.prob, strict=True):
                assert seen[str(id)] == pytest.approx(value, abs=1e-7)


def test_the_page_learns_where_the_cursor_rests(page: Page) -> None:
    open_player(page, cursor={"round": 3, "node": None})
    page.locator(".player").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.wait_for_function("sent.length")
    rest = {"round": 6, "step": None, "node": None, "lead": None, "view": None}
    assert page.evaluate("sent") == [["state", "cursor", rest]]
    page.locator(".chips [data-node='0']").click()
    page.wait_for_function("sent.length > 1")
    assert page.evaluate("sent[1]") == ["state", "cursor", {**rest, "node": 0}]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("sent.length > 2")
    assert page.evaluate("sent[2]") == ["state", "cursor", {**rest, "round": 7, "step": 1}]
    page.keyboard.press("1")
    page.wait_for_function("sent.length > 3")
    assert page.evaluate("sent[3][2].lead") == 0


def test_a_cursor_that_comes_back_from_the_page_moves_nothing(page: Page) -> None:

    open_player(page, cursor={"round": 3, "node": None})
    page.locator(".player").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("sent.length")
    page.keyboard.press("ArrowDown")
    page.evaluate("data => player.update(data)", data(cursor={"round": 4, "node": None}))
    expect(page.locator(".where")).to_have_text("Round 5 of 12")
    page.evaluate("data => player.update(data)", data(cursor={"round": 9, "node": 0}))
    expect(page.locator(".where")).to_have_text("Round 9 of 12")


@pytest.mark.parametrize("between", [0, 1])
@pytest.mark.parametrize("first", ["the new one is mounted", "the old one is removed"])
def test_a_player_that_replaces_another_goes_on_where_that_one_stood(
    page: Page, first: str, between: int
) -> None:
    """Catches: a move lost on leaving a presentation, when the page has not heard of it yet."""

    named = {"cursor": {"round": 3, "node": None}, "of": f"run {between} {first}"}
    open_player(page, **named)
    page.locator(".player").focus()
    page.keyboard.press("ArrowDown")
    page.evaluate(
        """async ([data, early, between]) => {
          const { mount } = await import("/player/player.js");
          for (let at = 0; at <= between; at++) {  // those between are removed before they have read their run
            const [old, root] = [player, document.createElement("div")];
            if (early) old.destroy();
            shadow.lastElementChild.after(root);
            const page = { setStateValue: (name, value) => sent.push(value), setTriggerValue() {} };
            window.player = mount(root, data, page);
            if (!early) old.destroy();
          }
        }""",
        [data(**named), first == "the old one is removed", between],
    )
    expect(page.locator(".where")).to_have_text("Round 4 of 12")
    assert page.evaluate("sent.at(-1)")["round"] == 4, "the page is told"


def test_reduced_motion_does_not_play_by_itself(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_player(page, autoplay=True)
    expect(page.locator(".control.play")).to_have_attribute("aria-label", "Play (space)")


PLACES = """() => {
  window.places = [];
  new MutationObserver(() => {
    const place = shadow.querySelector(".stage:not([hidden]) .where")?.textContent;
    if (place && place !== places.at(-1)?.[0]) places.push([place, performance.now()]);
  }).observe(shadow, { childList: true, subtree: true, characterData: true });
}"""


@pytest.mark.parametrize("new", [False, True])
def test_autoplay_runs_from_the_prompt_and_moves_within_two_seconds(page: Page, new: bool) -> None:
    """Also before a visitor's first run, whose first round is in slow motion."""
    if new:
        page.evaluate("localStorage.removeItem('specdec-first-round')")
    page.evaluate(PLACES)
    open_player(page, autoplay=True)
    expect(page.locator(".control.play")).to_have_attribute("aria-label", "Pause (space)")
    page.wait_for_function("places.length > 2")  # it does not wait to be seen
    places = page.evaluate("places")
    assert [place for place, _ in places[:2]] == [
        "The prompt, before round 1",
        "Round 1 of 12: proposed" if new else places[1][0],
    ]
    assert places[1][0].startswith("Round 1 of 12")
    assert places[1][1] - places[0][1] < 2_000
    assert page.evaluate("sent") == []


def test_a_lanes_name_says_what_its_proposer_does(page: Page) -> None:
    """Catches: a badge such as "EAGLE head" with which a newcomer is left alone."""
    words = {"none": "Proposes nothing.", "draft-model": "A smaller model writes ahead."}
    open_player(page, proposers=words)
    plain, draft = page.locator(".lane-lead").all()
    expect(plain).to_have_attribute("title", re.compile(r"^Proposes nothing\.\n\n.+ \(key 1\)$"))
    expect(draft).to_have_attribute("title", re.compile(r"^A smaller model writes ahead\.\n\n.+ \(key 2\)$"))


def test_lanes_that_wrote_the_same_text_are_said_to(page: Page) -> None:
    """Once they have. Catches: losslessness shown to nobody, or foretold."""
    origin = page.locator(".provenance:not(.slowed)")
    open_player(page)
    expect(origin).to_have_text("measured · this machine, this run · same text")
    stop_at(page, 1)
    expect(origin).to_have_text("measured · this machine, this run")
    other = json.loads(spec_trace(spec_plans()[:-1]).to_json())
    plain = json.loads(plain_trace().to_json())
    open_player(page, traces=[{"label": "Plain", "trace": plain}, {"label": "Draft", "trace": other}])
    expect(origin).to_have_text("measured · this machine, this run")
    open_player(page, traces=[{"label": "Draft", "trace": other}])  # there is no other text
    expect(origin).to_have_text("measured · this machine, this run")
