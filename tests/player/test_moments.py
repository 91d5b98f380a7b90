"""Within a round: its events in the order the rule walked, what is known at each, lanes that lead, the shared clock."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import specdec_core as sd
from tests.player.conftest import Server, open_player
from tests.player.samples import plain_trace, spec_plans, spec_trace
from tests.player.views import PROMPT, models, recorded

pytestmark = pytest.mark.browser

# The pure functions, called as they are: what a round's events are, and what a view says at each.
MOMENTS = """async ([record, stop]) => {
  const { laneOf } = await import("/player/model/model.js");
  const { momentsOf, knows } = await import("/player/model/moments.js");
  const { visible } = await import("/player/model/state.js");
  const lane = laneOf(record, "a lane");
  const events = momentsOf(lane, lane.rounds[stop - 1]);
  return events.map((event, at) => {
    const view = visible([lane], { stop, event: at, selection: null, lead: null });
    const { phase, judged, node } = view.moment;
    return {
      phase, node, judged: [...judged], clock: view.clock, tokens: view.current.tokens.length,
      verdicts: view.current.proposals.map((item) => item.verdict), rounds: view.lanes[0].rounds.length,
      knows: ["q", "p", "positions"].filter((what) => knows(view, what)),
      coins: view.current.proposals.map((item) => item.node).filter((item) => knows(view, "coin", item)),
    };
  });
}"""


SCRUB = """stop => {
  const slider = shadow.querySelector('.slider');
  slider.value = stop;
  slider.dispatchEvent(new Event('input'));
}"""


def tree_record() -> dict[str, Any]:
    """Round 1 is a tree: two siblings fail, the third passes, below it one fails and one passes."""
    record: dict[str, Any] = json.loads(spec_trace(full=False).to_json())
    record["rounds"][0]["nodes"].update(
        parent=[-1, -1, -1, 0, 2, 2, 5],
        depth=[1, 1, 1, 2, 2, 2, 3],
        token=[0, 1, 2, 3, 4, 5, 6],
        verdict=["rejected", "rejected", "accepted", "unreached", "rejected", "accepted", "cut"],
    )
    record["rounds"][0]["committed"] = {"token": [2, 5], "source": ["accepted", "accepted"]}
    return record


def test_events_follow_the_walk_of_the_rule(page: Page) -> None:
    """Catches: another order than down the tree, verdicts before their event, and text before the commit."""
    seen = page.evaluate(MOMENTS, [tree_record(), 1])
    assert [event["phase"] for event in seen] == ["proposed", "verified", *["judged"] * 5, "committed"]
    assert [event["node"] for event in seen[2:-1]] == [0, 1, 2, 4, 5]
    row = spec_trace().rounds[0]
    for at, event in enumerate(seen[:-1]):
        fallen = [0, 1, 2, 4, 5][: max(0, at - 1)]
        assert event["judged"] == event["coins"] == fallen
        verdicts = ["rejected", "rejected", "accepted", None, "rejected", "accepted", None]
        known = {node: verdicts[node] for node in fallen} | (
            {3: "unreached"} if 0 in fallen else {}
        )  # it follows 0
        assert event["verdicts"] == [known.get(node, "waiting") for node in range(7)]
        assert event["tokens"] == event["rounds"] == 0
        assert event["knows"] == (["q"] if at == 0 else ["q", "p"])
        assert event["clock"] == pytest.approx(row.draft_s + (row.verify_s if at else 0))
    assert seen[-1]["tokens"] == 2 and seen[-1]["rounds"] == 1
    assert seen[-1]["verdicts"][3] == "unreached" and seen[-1]["verdicts"][6] == "cut"
    assert seen[-1]["knows"] == ["q", "p", "positions"]
    assert seen[-1]["clock"] == pytest.approx(row.end_s)


def test_a_rule_that_judges_the_draft_as_one_has_one_such_event(page: Page) -> None:
    record = json.loads(spec_trace().to_json())
    record["header"]["judging"] = "longest"
    seen = page.evaluate(MOMENTS, [record, 1])
    assert [event["phase"] for event in seen] == ["proposed", "verified", "judged", "committed"]
    assert seen[2]["judged"] == [0, 1, 2] and seen[2]["node"] == 1


def test_a_round_without_proposals_is_checked_and_committed(page: Page) -> None:
    seen = page.evaluate(MOMENTS, [json.loads(spec_trace().to_json()), 5])
    assert [event["phase"] for event in seen] == ["verified", "committed"]


def test_the_transcript_says_each_event(page: Page) -> None:
    open_player(page, cursor={"round": 0, "node": None})
    page.locator(".player").focus()
    said = page.locator(".transcript")
    expect(said).to_have_attribute("aria-live", "polite")
    for sentence in (
        "Round 1: the draft guessed 3 tokens.",
        "Round 1: the target has read all 3 guesses in one pass.",
        "Round 1: ‘\u00a0The’ is accepted (1 of 3 judged).",
        "Round 1: ‘\u00a0quick’ is accepted (2 of 3 judged).",
        "Round 1: ‘\u00a0fox’ is rejected (3 of 3 judged).",
    ):
        page.keyboard.press("ArrowRight")
        expect(said).to_have_text(sentence)
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("3 tokens from one target pass.")


# Every round's sentences: at its moments, and as a lane that is filled step by step shows it.
SENTENCES = """async ([record, steps]) => {
  const { addStep, emptyLane, laneOf } = await import("/player/model/model.js");
  const { momentsOf } = await import("/player/model/moments.js");
  const { visible } = await import("/player/model/state.js");
  const { sentenceAt, sentenceOf } = await import("/player/screen/sentences.js");
  const lane = laneOf(record, "a lane");
  const live = emptyLane("a lane", "", lane.proposer);
  for (const step of steps) addStep(live, step);
  const view = (at, event) => visible([lane], { stop: at + 1, event, selection: null, lead: null });
  return lane.rounds.map((round, at) => ({
    moments: momentsOf(lane, round).map((_, event) => sentenceAt(view(at, event))),
    live: live.rounds[at] ? sentenceOf(live, live.rounds[at]) : null,
  }));
}"""


def test_what_was_drafted_and_what_the_target_read_are_told_apart(page: Page) -> None:
    """Trees of which most is pruned: how many were drafted follows from the options, as counted here. Catches: a number
    that is called proposed and is neither, and a live run that shows another story than its replay."""
    settings = sd.Settings(proposer="branching", max_new_tokens=24)
    events = list(sd.stream(models(), PROMPT, settings))
    steps = [event for event in events if isinstance(event, sd.events.Step)]
    assert isinstance(events[-1], sd.events.Finished)
    record = json.loads(events[-1].trace.to_json())
    sentences = page.evaluate(SENTENCES, [record, [dataclasses.asdict(step) for step in steps]])
    drafted = 3 + 3 * 3 + 2 * 4 * 3  # three below the root, and below each of at most four nodes of a level
    for row, step in list(zip(sentences, steps, strict=True))[:-2]:  # the end leaves no room for all levels
        first, _, *_, last = row["moments"]
        assert first.endswith(f"a lane guessed {drafted} tokens; 16 of them are sent to the target.")
        accepted = step.verdict.count("accepted")
        assert f"a lane guessed {drafted} tokens, of which the target read 16; it accepted {accepted}" in last
        assert row["live"] == last
    eagle = recorded("eagle", temperature=0.0)
    for row, kept in zip(
        page.evaluate(SENTENCES, [json.loads(eagle.to_json()), []]), eagle.rounds, strict=True
    ):
        if read := sum(verdict != "pruned" for verdict in kept.nodes.verdict):
            guesses = f"{read} guess{'es' if read > 1 else ''}"
            assert f"sent {guesses} to the target" in row["moments"][0]
            assert f"sent {guesses}; the target accepted" in row["moments"][-1]
    chain = page.evaluate(SENTENCES, [json.loads(recorded("draft-model").to_json()), []])
    assert "nothing was proposed, as only one token was left;" in chain[-1]["moments"][-1]
    assert all("proposed 4 tokens; the target accepted" in row["moments"][-1] for row in chain[:-3])


@pytest.mark.parametrize(("proposer", "asked"), [("draft-model", 4), ("eagle", 5)])
def test_fewer_guesses_at_the_length_limit_are_explained(page: Page, proposer: str, asked: int) -> None:
    """Catches: last rounds that guess fewer tokens and do not say why, and a full round that says so."""
    trace = recorded(proposer, temperature=0.0, max_new_tokens=40)
    before, short = 0, 0
    for row, told in zip(
        trace.rounds, page.evaluate(SENTENCES, [json.loads(trace.to_json()), []]), strict=True
    ):
        room = 40 - before - 1
        words = f"The length limit left room for only {room} accepted guess{'es' if room > 1 else ''}."
        expected = 0 < room < asked and max(row.nodes.depth, default=0) == room
        assert [words in said for said in (told["moments"][0], told["moments"][-1])] == [expected] * 2
        assert ("length limit" in told["moments"][-1]) is expected
        before, short = before + len(row.committed.token), short + expected
    assert short


def test_a_draft_of_which_nothing_was_sent_is_said_so(page: Page) -> None:
    record = tree_record()
    record["rounds"][0]["nodes"]["verdict"] = ["pruned"] * 7
    record["rounds"][0]["committed"] = {"token": [2], "source": ["plain"]}
    (row, *_) = page.evaluate(SENTENCES, [record, []])
    assert row["moments"][0].endswith("the draft guessed 7 tokens; none of them are sent to the target.")
    assert (
        "the draft guessed 7 tokens and sent none of them to the target; the target wrote"
        in row["moments"][-1]
    )
    assert row["moments"][1] == "Round 1: the target made one pass."


def test_the_slider_counts_what_is_judged_and_not_what_was_pruned(page: Page) -> None:
    record = tree_record()
    record["rounds"][0]["nodes"]["verdict"][3:] = ["unreached", "rejected", "accepted", "pruned"]
    open_player(
        page, traces=[{"label": "one", "trace": record}], cursor={"round": 1, "step": 2, "node": None}
    )
    expect(page.locator(".where")).to_have_text("Round 1 of 12: 1 of 6 judged")


def three_lanes(server: Server) -> list[dict[str, str]]:
    forked = json.loads(spec_trace(ms=5).to_json())
    forked["output"]["texts"][4] = " elsewhere"
    server.files["/traces/forked.json"] = json.dumps(forked)
    return [
        {"label": "Plain", "url": "/traces/plain.json"},
        {"label": "Forked", "url": "/traces/forked.json"},
        {"label": "Draft model", "url": "/traces/spec.json"},
    ]


def test_any_lane_can_lead(page: Page, server: Server) -> None:
    """Catches: a lead that the keyboard cannot give, that jumps in time, or that only one view follows."""
    open_player(page, traces=three_lanes(server), cursor={"round": 4, "node": None})
    leads = page.locator(".lane.leads .lane-label")
    expect(leads).to_have_text("Draft model")
    clock = spec_trace().rounds[3].end_s
    page.get_by_role("button", name="Plain").focus()
    page.keyboard.press("Enter")
    expect(leads).to_have_text("Plain")
    rounds = plain_trace().rounds
    ended = sum(row.end_s <= clock + 1e-9 for row in rounds)
    expect(page.locator(".where")).to_have_text(f"Round {ended} of {len(rounds)}")
    expect(page.locator(".round-title")).to_have_text(f"Round {ended}")
    page.keyboard.press("2")
    expect(leads).to_have_text("Forked")
    page.wait_for_function("sent.length && sent[sent.length - 1][2].lead === 1")
    open_player(page, traces=three_lanes(server), cursor={"round": 4, "lead": 1, "node": None})
    expect(leads).to_have_text("Forked")


def test_the_speedup_in_large_is_the_leading_lanes(page: Page, server: Server) -> None:
    open_player(page, traces=three_lanes(server))
    plain = plain_trace().stats.tokens_per_second
    for lane, trace in ((3, spec_trace()), (2, spec_trace(ms=5)), (1, spec_trace())):
        page.locator(".player").focus()
        page.keyboard.press(str(lane))
        expect(page.locator(".speedup-value")).to_have_text(f"{trace.stats.tokens_per_second / plain:.2f}×")


def test_a_fork_is_marked_where_and_when_the_texts_part(page: Page, server: Server) -> None:
    """Catches: a mark before both lanes have written the place, at another token, or on a lane with the same text."""
    open_player(page, traces=three_lanes(server))
    expect(page.locator(".fork")).to_have_count(1)
    after = page.locator(".lane[data-lane='1'] .fork").evaluate("mark => mark.nextElementSibling.textContent")
    assert after.startswith(" elsewhere")
    words = [len(row.committed.token) for row in spec_trace(ms=5).rounds]
    first = next(at for at in range(len(words)) if sum(words[: at + 1]) > 4)
    other = plain_trace().rounds[4].end_s
    own = spec_trace(ms=5).rounds[first].end_s
    assert own < other  # the fork waits for the plain lane
    stops = [row.end_s for row in spec_trace().rounds]
    for stop, clock in enumerate(stops, 1):
        page.evaluate(
            SCRUB,
            stop,
        )
        expect(page.locator(".fork")).to_have_count(1 if clock >= other - 1e-9 else 0)


def test_the_time_axis_shows_what_was_done_and_moves_the_cursor(page: Page, server: Server) -> None:
    """Catches: blocks of the future, blocks off their times, and a press that lands elsewhere."""
    open_player(page, traces=three_lanes(server), cursor={"round": 4, "node": None})
    lanes = [plain_trace(), spec_trace(ms=5), spec_trace()]
    clock = spec_trace().rounds[3].end_s
    whole = max(trace.rounds[-1].end_s for trace in lanes)
    frame = page.locator(".time-field").bounding_box()
    assert frame is not None
    for row, trace in enumerate(lanes):
        ended = [item for item in trace.rounds if item.end_s <= clock + 1e-9]
        blocks = page.locator(".time-row").nth(row).locator(".time-round")
        expect(blocks).to_have_count(len(ended))
        last = blocks.last.bounding_box()
        assert last is not None
        assert last["x"] + last["width"] - frame["x"] == pytest.approx(
            frame["width"] * ended[-1].end_s / whole, abs=1.5
        )
    line = page.locator(".time-now").bounding_box()
    assert line is not None
    assert line["x"] + 1 - frame["x"] == pytest.approx(frame["width"] * clock / whole, abs=1.5)
    row6 = spec_trace().rounds[6]
    middle = row6.start_s + row6.draft_s + row6.verify_s / 2  # the pass goes on: the draft is there
    rows = [box for row in page.locator(".time-row").all() if (box := row.bounding_box())]
    x, y = frame["x"] + frame["width"] * middle / whole, rows[2]["y"] + 8
    page.mouse.click(x, y)  # a segment opens its round
    expect(page.locator(".where")).to_have_text("Round 7 of 12")
    page.mouse.move(x - 30, y)
    page.mouse.down()
    page.mouse.move(x, y)  # dragging goes through its moments
    page.mouse.up()
    expect(page.locator(".where")).to_have_text("Round 7 of 12: proposed")
    row2 = lanes[0].rounds[2]
    page.mouse.click(frame["x"] + frame["width"] * (row2.start_s + row2.end_s) / 2 / whole, rows[0]["y"] + 8)
    expect(page.locator(".where")).to_have_text(f"Round 3 of {len(lanes[0].rounds)}")
    expect(page.locator(".lane.leads .lane-label")).to_have_text("Plain")


PARTED = """() => [...shadow.querySelectorAll(".time-round")]
  .map((block) => getComputedStyle(block).borderInlineStartWidth)"""


def test_rounds_are_parted_everywhere_or_nowhere(page: Page, server: Server) -> None:
    """Catches: gaps in one lane and not in the other, and a legend of gaps where there are none."""
    for width, wide in ((1400, True), (250, False)):
        page.set_viewport_size({"width": width, "height": 900})
        open_player(page, traces=three_lanes(server))
        assert set(page.evaluate(PARTED)) == {"1px" if wide else "0px"}
        expect(page.locator(".time-key .gap")).to_be_visible(visible=wide)


LIT = """() => [...shadow.querySelectorAll('.lit')].map((each) => [
  each.closest('.lane, .strip, .mask, .odds')?.className.split(' ')[0],
  each.closest('[data-round]').dataset.round, each.dataset.node])"""


def test_a_finger_on_the_time_axis_moves_nothing_before_its_click(page: Page, server: Server) -> None:
    """The click lands on what is under the finger by then. Catches: a press that draws another lane at once, and so
    opens the help that slid below it."""
    open_player(page, traces=three_lanes(server), cursor={"round": 4, "node": None})
    press = """(field, [kind, type]) => {
      const { left, width, top } = field.getBoundingClientRect();
      const place = { clientX: left + width / 2, clientY: top + 4 };
      const at = { pointerType: type, pointerId: 1, button: 0, bubbles: true, ...place };
      field.setPointerCapture = () => {};
      field.dispatchEvent(new PointerEvent(kind, at));
    }"""
    field, where = page.locator(".time-field"), page.locator(".where")
    before = where.inner_text()
    field.evaluate(press, ["pointerdown", "touch"])
    page.wait_for_timeout(100)
    expect(where).to_have_text(before)
    field.evaluate(press, ["click", "touch"])
    expect(where).not_to_have_text(before)


def test_all_blocks_of_a_lane_are_apart_or_none(page: Page) -> None:
    """Catches: lines after some blocks of a lane and not after others, which reads as passes of different lengths."""
    record = spec_trace(spec_plans() * 10)
    for index, row in enumerate(record.rounds):  # passes that differ a little, as measured ones do
        row.verify_s *= 1 + (index % 7) / 50
    trace = {"label": "Many", "trace": json.loads(record.to_json())}
    open_player(page, traces=[trace], cursor={"round": 4, "node": None})
    page.keyboard.press("End")
    lines = """rows => rows.map((row) => [...row.children].map((block) =>
      parseFloat(getComputedStyle(block).borderInlineStartWidth)))"""
    for wide in (1440, *range(390, 140, -10)):
        page.set_viewport_size({"width": wide, "height": 844})
        for row in page.locator(".time-row").evaluate_all(lines):
            assert len(set(row)) == 1, (wide, row)


def test_a_node_lights_in_every_view(page: Page) -> None:
    """Catches: a view without the light, another node lit, and a light that stays."""
    open_player(page, cursor={"round": 1, "node": None})
    page.locator(".tree [data-node='1']").first.hover()
    lit = page.evaluate(LIT)
    assert {where for where, _, _ in lit} >= {"lane", "strip"}
    assert {(round, node) for _, round, node in lit} == {("0", "1")}
    page.locator(".panel-tab", has_text="Mask").click()
    page.locator(".mask-heads [data-node='1']").hover()
    lit = page.evaluate(LIT)
    assert {where for where, _, _ in lit} >= {"lane", "strip", "mask"}
    assert {(round, node) for _, round, node in lit} == {("0", "1")}
    page.locator(".panel-tab").first.click()
    page.mouse.move(2, 2)
    expect(page.locator(".lit")).to_have_count(0)
    page.locator(".strip [data-node='0']").first.click()
    page.mouse.move(2, 2)
    expect(page.locator(".lit"), "the pointer's ring goes with it").to_have_count(0)
    page.keyboard.press("Tab")
    page.locator(".strip [data-node='0']").first.focus()
    assert page.locator(".lit").count() > 1


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_one_view_at_a_time(page: Page, width: int) -> None:
    """Catches: views below each other, targets below 24 px, a tab that the address forgets, sideways scrolling."""
    page.set_viewport_size({"width": width, "height": 800})
    open_player(page, cursor={"round": 3, "node": None})
    expect(page.locator(".panel.open")).to_have_count(1)
    expect(page.locator(".strip")).to_be_visible()
    expect(page.locator(".odds")).to_be_hidden()
    page.get_by_role("button", name="Odds").click()
    expect(page.locator(".odds")).to_be_visible()
    expect(page.locator(".strip")).to_be_hidden()
    page.wait_for_function("sent.length && sent[sent.length - 1][2].view === 'odds'")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    small = page.evaluate(
        """() => ['.controls button', '.controls select', '.controls input', '.panel-tab', '.lane-lead']
          .flatMap((kind) => [...shadow.querySelectorAll(kind)])
          .filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())
          .filter((each) => Math.min(each.width, each.height) < 24).length"""
    )
    assert small == 0
    open_player(page, cursor={"round": 3, "node": None, "view": "odds"})
    expect(page.locator(".odds")).to_be_visible()


def test_playing_goes_event_by_event_and_faster_round_by_round(page: Page) -> None:
    paces = page.evaluate(
        """async ([record]) => {
          const { laneOf } = await import("/player/model/model.js");
          const { paced } = await import("/player/model/walk.js");
          const lanes = [laneOf(record, "a lane")];
          const at = { stop: 2, event: null, selection: null, lead: 0 };
          const end = { ...at, stop: 99 };
          return [0.25, 1, 2, 8].map((speed) => paced(lanes, at, speed)).concat([paced(lanes, end, 1)]);
        }""",
        [json.loads(spec_trace().to_json())],
    )
    assert [(pace["cursor"]["stop"], pace["cursor"]["event"]) for pace in paces[:-1]] == [
        (3, 0),
        (3, 0),
        (3, None),
        (3, None),
    ]
    assert paces[-1] is None
    # Drafting takes 0.3 of every round of the sample; a round is one second at 1×.
    assert [pace["ms"] for pace in paces[:-1]] == pytest.approx([1200, 300, 500, 125])


def test_what_was_drafted_ahead_in_vain_does_not_exist_before_the_commit(page: Page) -> None:
    """Catches: a discarded guess that waits beside the proposals, is counted as one, or can be selected too early."""
    record = tree_record()
    record["rounds"][0]["nodes"]["verdict"] = [
        "rejected", "rejected", "accepted", "discarded", "rejected", "accepted", "discarded",
    ]  # fmt: skip
    for event in page.evaluate(MOMENTS, [record, 1]):
        verdict = "discarded" if event["phase"] == "committed" else "absent"
        assert [event["verdicts"][node] for node in (3, 6)] == [verdict, verdict]
    open_player(page, traces=[{"label": "one", "trace": record}], cursor={"round": 1, "step": 0, "node": 3})
    box = page.locator(".player")
    assert box.locator(".tree [data-node]").count() == 5
    assert box.locator("[data-node='3'], [data-node='6']").count() == 0
    assert "guessed 5 tokens" in (page.locator(".transcript").text_content() or "")
    box.press("End")
    box.press("Home")
    box.press("ArrowDown")
    assert box.locator(".tree [data-node='3']").count() == 1


def test_tokens_that_differ_in_a_space_alone_are_told_apart(page: Page) -> None:
    """Catches: "rejected ‘He’ and wrote ‘He’ instead"."""
    record = json.loads(spec_trace().to_json())
    record["texts"]["900"], record["texts"]["901"] = "He", " He"
    record["output"]["texts"][2] = " He"
    row = record["rounds"][0]
    row["nodes"]["token"][2], row["committed"]["token"][2] = 900, 901
    (said, *_) = page.evaluate(SENTENCES, [record, []])
    assert "rejected ‘He’ and wrote ‘␣He’ instead" in said["moments"][-1]


def test_a_target_s_own_choice_that_a_rule_refused_is_not_written_instead(page: Page) -> None:
    """Catches: "rejected ‘He’ and wrote ‘He’ instead", and the same of a token that was rejected at another place."""
    record = json.loads(spec_trace().to_json())
    record["texts"]["900"] = record["output"]["texts"][2] = "He"
    row = record["rounds"][0]
    row["nodes"]["token"][2] = row["committed"]["token"][2] = 900
    (said, *_) = page.evaluate(SENTENCES, [record, []])
    assert "rejected ‘He’ and wrote ‘He’ all the same" in said["moments"][-1]
    record = tree_record()
    record["texts"]["900"] = record["output"]["texts"][1] = "He"
    record["rounds"][0]["nodes"].update(
        token=[900, 901, 902],
        parent=[-1, -1, 1],
        depth=[1, 1, 2],
        verdict=["rejected", "accepted", "rejected"],
    )
    record["rounds"][0]["committed"].update(token=[901, 900], source=["accepted", "corrected"])
    (said, *_) = page.evaluate(SENTENCES, [record, []])
    assert "rejected 2 of them and wrote ‘He’ instead" in said["moments"][-1]


def test_what_lies_beyond_the_end_is_left_out_whether_it_was_judged_or_not(page: Page) -> None:
    """Catches: "did not reach one and left out 2" of three guesses behind the end of the text."""
    record = tree_record()
    record["rounds"][0]["nodes"].update(
        parent=[-1, 0, 1, 2],
        depth=[1, 2, 3, 4],
        token=[0, 1, 2, 3],
        verdict=["accepted", "cut", "cut", "unreached"],
    )
    record["rounds"][0]["committed"] = {"token": [0], "source": ["accepted"]}
    (row, *_) = page.evaluate(SENTENCES, [record, []])
    assert "accepted 1 and left out 3, as the text ended before them" in row["moments"][-1]
    assert "not reach" not in row["moments"][-1]


def test_once_all_is_judged_the_rest_is_said_not_to_be_reached(page: Page) -> None:
    """Chains: the rejected guess ends the judging. Catches: “2 of 3 judged” beside a third that nothing will judge."""
    trace = spec_trace()
    said = page.evaluate(SENTENCES, [json.loads(trace.to_json()), []])
    seen = 0
    for row, found in zip(trace.rounds, said, strict=True):
        verdicts = row.nodes.verdict
        if "rejected" not in verdicts:
            assert not any("not reached" in sentence for sentence in found["moments"])
            continue
        judged, rest = verdicts.index("rejected") + 1, verdicts.count("unreached")
        tail = f", {rest} not reached" if rest else ""
        assert found["moments"][-2].endswith(f"is rejected ({judged} of {judged + rest} judged{tail}).")
        seen += bool(rest)
    assert seen


def test_what_is_known_not_to_be_reached_is_said_before_all_is_judged(page: Page) -> None:
    """Trees. Catches: “1 of 7 judged” beside a guess that the tree already shows as not reached."""
    events = page.evaluate(MOMENTS, [tree_record(), 1])
    (said, *_) = page.evaluate(SENTENCES, [tree_record(), []])
    counts = []
    for event, sentence in zip(events, said["moments"], strict=True):
        if event["phase"] == "judged" and "waiting" in event["verdicts"]:
            counts.append(event["verdicts"].count("unreached"))
            tail = f", {counts[-1]} not reached" if counts[-1] else ""
            assert sentence.endswith(f" ({len(event['judged'])} of 7 judged{tail}).")
    assert counts == [1] * 5
