"""Following a run while it happens."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from specdec_core.record.trace import Trace
from tests.player.conftest import COMMITTED, Server, data, open_player
from tests.player.samples import WORDS, plain_trace, spec_trace

pytestmark = pytest.mark.browser
ARCHITECTURE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
TIMES = ["draft", "target pass", "other work", "gaps: between rounds"]


def messages() -> list[dict[str, Any]]:
    """A race of the two sample traces, as the app's event stream sends it."""
    lanes = [plain_trace(), spec_trace()]
    said: list[dict[str, Any]] = [{"type": "queued", "place": 2}]
    for lane, trace in enumerate(lanes):
        settings = trace.header.settings
        said.append(
            {"type": "started", "lane": lane, "proposer": settings["proposer"], "rule": settings["rule"],
             "prompt_tokens": 3, "prefill_s": 0.01, "label": ["Plain", "Draft model"][lane]}
        )  # fmt: skip
    steps = sorted(
        (step for lane, trace in enumerate(lanes) for step in _steps(lane, trace)),
        key=lambda step: step["clock_s"],
    )
    said += steps
    for lane, name in enumerate(("plain", "spec")):
        said.append(
            {"type": "finished", "lane": lane, "end": "length", "stats": {}, "trace": f"/traces/{name}.json"}
        )
    return [*said, {"type": "done"}]


def _steps(lane: int, trace: Trace) -> list[dict[str, Any]]:
    steps, total = [], 0
    for row in trace.rounds:
        tokens = row.committed.token
        total += len(tokens)
        steps.append(
            {"type": "step", "lane": lane, "round": row.index, "clock_s": row.end_s, "tokens": tokens,
             "texts": [WORDS[id] for id in tokens], "sources": row.committed.source, "parent": row.nodes.parent,
             "node_texts": [trace.texts[str(id)] for id in row.nodes.token],
             "names": [trace.texts[str(id)] for id in tokens], "verdict": row.nodes.verdict,
             "total": total, "start_s": row.start_s, "draft_s": row.draft_s, "verify_s": row.verify_s,
             "judge_s": row.judge_s, "commit_s": row.commit_s, "ahead_s": row.ahead_s}
        )  # fmt: skip
    return steps


def live(page: Page, run: str = "a") -> None:
    open_player(page, mode="live", events=f"/runs/{run}/events", traces=[], prompt=None)


DONE = "sent.filter(([kind]) => kind === 'trigger')"


def to_the_end(page: Page) -> None:
    """Wait for the run's end; it opens at its most telling round, and the keys are the player's."""
    expect(page.locator(".where")).to_have_text("Round 1 of 12")
    page.keyboard.press("End")
    expect(page.locator(".where")).to_have_text("The end: every lane has finished")


def test_a_run_becomes_a_replay(page: Page, server: Server) -> None:
    said = messages()
    server.streams["/runs/a/events"] = lambda last: [
        (id, said[id]) for id in range(max(0, last + 1), len(said))
    ]
    live(page)
    to_the_end(page)
    assert page.evaluate(COMMITTED, 0) == plain_trace().text
    assert page.evaluate(COMMITTED, 1) == spec_trace().text
    expect(page.locator(".notice")).to_be_hidden()
    page.wait_for_function(f"{DONE}.length")
    assert page.evaluate(DONE) == [["trigger", "done", "a"]]
    # The page then calls the same run a replay: nothing is built anew, nothing is sent again.
    page.evaluate("shadow.querySelector('.tok').id = 'kept'")
    page.evaluate("data => player.update(data)", data(mode="live", events="/runs/a/events", traces=[]))
    page.evaluate("data => player.update(data)", data())
    page.wait_for_timeout(100)
    expect(page.locator("#kept")).to_have_count(1)
    assert page.evaluate(f"{DONE}.length") == 1


def test_lanes_fill_while_the_run_goes_on(page: Page, server: Server) -> None:
    said = messages()
    half = len(said) // 2
    server.streams["/runs/a/events"] = lambda last: [(id, said[id]) for id in range(half)] if last < 0 else []
    live(page)
    expect(page.locator(".lane")).to_have_count(2)
    expect(page.locator(".leads .round").first).to_be_visible()
    written = [message for message in said[:half] if message["type"] == "step"]
    for lane in (0, 1):
        texts = [text for message in written if message["lane"] == lane for text in message["texts"]]
        page.wait_for_function(f"wanted => ({COMMITTED})({lane}) === wanted", arg="".join(texts))
    expect(page.locator(".speedup-value")).to_contain_text("×")
    expect(page.locator(".controls")).to_be_hidden()
    expect(page.locator(".leads .tok.accepted").first).to_be_visible()


def test_before_the_first_round_its_place_says_what_comes(page: Page, server: Server) -> None:
    """Catches: an empty half of the screen until the leading lane has written something."""
    page.set_viewport_size({"width": 1440, "height": 900})
    said, shown = messages(), threading.Event()
    first = next(at for at, message in enumerate(said) if message["type"] == "step" and message["lane"] == 1)

    def stream(last: int) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(said[:first])
        shown.wait(30)
        yield first, said[first]

    server.streams["/runs/a/events"] = stream
    live(page)
    to_come = page.get_by_text("The guesses of each round appear here as a tree.")
    expect(to_come).to_be_visible()
    shown.set()
    expect(page.locator(".tree .chip").last).to_be_visible()
    expect(to_come).to_have_count(0)


def test_a_broken_connection_loses_and_doubles_nothing(page: Page, server: Server) -> None:
    said = messages()

    def broken(last: int) -> list[tuple[int | None, dict[str, Any]]]:
        if last < 0:
            return [(id, said[id]) for id in range(9)]
        # After a reconnect some messages come twice, and one older than all.
        return [(0, said[0]), *((id, said[id]) for id in range(max(0, last - 3), min(len(said), last + 12)))]

    server.streams["/runs/a/events"] = broken
    live(page)
    to_the_end(page)
    assert page.evaluate(COMMITTED, 1) == spec_trace().text
    assert page.evaluate(COMMITTED, 0) == plain_trace().text
    assert server.resumed[0] == 8


def test_the_queue_is_shown(page: Page, server: Server) -> None:
    first, seen = threading.Event(), threading.Event()

    def queued(last: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
        yield 0, {"type": "queued", "place": 2, "wait_s": 11.6}
        first.wait(30)
        yield None, {"type": "queued", "place": 2, "wait_s": 7.4}  # the same place, some time later
        seen.wait(30)  # a stream that ends would be reported as lost and opened again

    server.streams["/runs/a/events"] = queued
    live(page)
    page.wait_for_function(
        "shadow.querySelector('.notice').textContent.includes('2 runs ahead of yours, about 10 s.')"
    )
    first.set()
    page.wait_for_function(
        "shadow.querySelector('.notice').textContent.includes('2 runs ahead of yours, about 7 s.')"
    )
    seen.set()


def test_an_error_is_one_sentence(page: Page, server: Server) -> None:
    server.streams["/runs/a/events"] = lambda last: [
        (0, {"type": "error", "message": "The memory was not enough. <b>Really</b>"}),
        (1, {"type": "done"}),
    ]
    live(page)
    expect(page.locator(".notice")).to_have_text("The memory was not enough. <b>Really</b>")
    page.wait_for_function("sent.length")
    assert page.evaluate("sent") == [["trigger", "done", "a"]]


def test_a_lost_record_is_said_and_the_text_stays(page: Page, server: Server) -> None:
    said = [*messages()[:-3], {"type": "finished", "lane": 0, "end": "length", "trace": "/traces/plain.json"}]
    said += [{"type": "finished", "lane": 1, "end": "length", "trace": "/traces/spec.json"}, {"type": "done"}]
    server.files["/traces/spec.json"] = "{ broken"
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said))
    live(page)
    expect(page.locator(".notice")).to_have_text("The record of this run could not be read.")
    assert page.evaluate(COMMITTED, 1) == spec_trace().text


def test_a_new_run_replaces_the_old_one(page: Page, server: Server) -> None:
    said = messages()
    server.streams["/runs/b/events"] = lambda last: [
        (id, said[id]) for id in range(max(0, last + 1), len(said))
    ]
    open_player(page, cursor={"round": 4, "node": 0})
    page.evaluate("data => player.update(data)", data(mode="live", events="/runs/b/events", traces=[]))
    to_the_end(page)
    assert page.evaluate(COMMITTED, 1) == spec_trace().text


def test_closing_ends_the_connection(page: Page, server: Server) -> None:
    server.streams["/runs/a/events"] = lambda last: []
    live(page)
    page.evaluate("player.destroy()")
    page.wait_for_timeout(150)
    before = len(server.resumed)
    page.wait_for_timeout(150)
    assert len(server.resumed) == before
    assert page.evaluate("shadow.querySelector('.player')") is None


def test_nothing_to_show_is_said(page: Page) -> None:
    open_player(page, traces=[])
    expect(page.locator(".notice")).to_contain_text("Nothing to show yet")


def test_a_run_that_asks_gets_the_words_exactly_as_typed(page: Page, server: Server) -> None:
    """Catches: an answer that is trimmed, goes to another question, or leaves the other lane's text readable."""
    said = [message for message in messages() if message["type"] == "started"]
    said.append({"type": "ask", "question": 3, "text": "Once upon", "most": 20})
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    live(page)
    box = page.get_by_role("textbox", name="What comes next?")
    expect(box).to_be_focused()
    covered = "getComputedStyle(shadow.querySelector('.lane:not(.leads) .committed')).filter"
    assert "blur" in page.evaluate(covered)
    page.keyboard.type("a")
    expect(page.locator(".ask .hint")).to_have_text("Your guess: ␣a")
    page.get_by_role("button", name="A space goes before your words").click()  # "Once upona"
    expect(page.locator(".ask .hint")).to_have_text("Your guess: a")
    box.fill(" a time ")
    page.keyboard.press("Enter")
    page.wait_for_function("!shadow.querySelector('.ask-words').value")
    assert server.answers == [("/runs/a/answer", {"question": 3, "words": " a time "})]


@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ("Once upon", "a time", True),
        ("Once upon ", "a time", False),
        ("Once upon", " a time", False),
        ("Once upon", ", there", False),
        ("She ran.", "He saw", True),
        ("np.", "array(", False),
        ("print(", "x", False),
        ("a line\n", "return", False),
        ("今日は", "天気", False),
    ],
)
def test_a_space_is_supplied_where_a_new_word_needs_one(
    page: Page, text: str, words: str, wanted: bool
) -> None:
    """Catches: "He" after "big.", which the target would write as " He" and reject."""
    module = "async (given) => (await import('/player/feed/ask.js')).wantsSpace(...given)"
    assert page.evaluate(module, [text, words]) is wanted


def test_a_guess_that_came_too_late_says_so_and_stays(page: Page, server: Server) -> None:
    """Catches: an answer that is lost when the server does not take it."""
    said = [message for message in messages() if message["type"] == "started"]
    said.append({"type": "ask", "question": 1, "text": "Once", "most": 20})
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    server.refusal = "This guess came too late."
    live(page)
    box = page.get_by_role("textbox", name="What comes next?")
    box.fill(" upon")
    page.get_by_role("button", name="Guess").click()
    expect(page.locator(".ask .hint")).to_have_text("This guess came too late.")
    expect(box).to_have_value(" upon")


def test_the_question_goes_when_the_run_goes_on(page: Page, server: Server) -> None:
    """Catches: a form that stays after the answer came from another page, or after the run has ended."""
    said = [*messages()[:3], {"type": "ask", "question": 1, "text": "x", "most": 20}]
    said += [{"type": "answered", "question": 1}, *messages()[3:]]
    server.streams["/runs/a/events"] = lambda last: [
        (id, said[id]) for id in range(max(0, last + 1), len(said))
    ]
    live(page)
    to_the_end(page)
    expect(page.locator(".ask")).to_be_hidden()
    assert page.locator(".is-asking").count() == 0


def test_the_time_axis_of_a_run_that_goes_on_reaches_the_lanes_clocks(page: Page, server: Server) -> None:
    """Catches: blocks that stop with the first messages, and rounds whose drafting is shown only when all is over."""
    said = messages()
    parts = [len(said) // 3, 2 * len(said) // 3]

    def halting(last: int) -> list[tuple[int | None, dict[str, Any]]]:
        """Each connection sends one part more; the last part waits."""
        end = next((part for part in parts if part > last + 1), parts[-1])
        return [(id, said[id]) for id in range(last + 1, end)]

    server.streams["/runs/a/events"] = halting
    live(page)
    steps = [message for message in said[: parts[1]] if message["type"] == "step"]
    clocks = [max(step["clock_s"] for step in steps if step["lane"] == lane) for lane in (0, 1)]
    for lane in (0, 1):
        blocks = page.locator(".time-row").nth(lane).locator(".time-round")
        expect(blocks).to_have_count(sum(step["lane"] == lane for step in steps))
    ends = page.locator(".time-row").evaluate_all(
        """rows => rows.map((row) => {
             const [last, all] = [row.lastChild, row].map((part) => part.getBoundingClientRect());
             return (last.right - all.left) / all.width;
           })"""
    )
    assert ends[0] / ends[1] == pytest.approx(clocks[0] / clocks[1], rel=0.01)
    expect(page.locator(".time-axis > span").last).to_have_text("")  # it would be taken for the run's end
    whole = float(page.locator(".time-row").last.evaluate("row => row.style.getPropertyValue('--whole')"))
    assert ends[1] * whole == pytest.approx(clocks[1], rel=0.05)
    expect(page.locator(".time-key > span:visible")).to_have_text(TIMES)
    drawn = "row => [...row.querySelectorAll('.time-round')].map((each) => each.getAttribute('style'))"
    leading = page.locator(".time-row").nth(1)
    while_live = leading.evaluate(drawn)
    parts.append(len(said))
    to_the_end(page)
    expect(page.locator(".time-key > span:visible")).to_have_text(TIMES)
    assert leading.evaluate(drawn)[: len(while_live)] == while_live, "the record says what the messages said"


def test_the_first_round_of_a_visitor_s_first_run_is_in_slow_motion_once(page: Page, server: Server) -> None:
    """Catches: a guess that is never seen before its fate; a second run that waits again; motion for who wants none."""
    said = messages()
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    server.streams["/runs/b/events"] = server.streams["/runs/a/events"]
    page.evaluate("localStorage.removeItem('specdec-first-round')")
    seen = """() => {
      window.seen = [];
      const note = () => {
        const states = [...shadow.querySelectorAll(".leads .guess")].map((guess) => guess.classList[1]).join(" ");
        const written = shadow.querySelectorAll(".leads .committed .tok").length;
        if (states && seen.at(-1)?.[0] !== states) seen.push([states, performance.now(), written]);
      };
      new MutationObserver(note).observe(shadow, { subtree: true, childList: true, attributes: true });
    }"""
    page.evaluate(seen)
    live(page)
    expect(page.locator(".transcript")).to_have_text("Round 1: the draft guessed 3 tokens.")
    expect(page.locator(".tree .chip")).to_have_count(3)
    expect(page.locator(".where")).to_have_text("Round 1 of 12", timeout=15_000)
    states = page.evaluate("seen")
    w = "waiting"
    assert [state for state, _, _ in states] == [
        f"{w} {w} {w}", f"accepted {w} {w}", f"accepted accepted {w}", "accepted accepted rejected",
    ]  # fmt: skip
    assert all(written == 0 for _, _, written in states)
    assert states[1][1] - states[0][1] > 1_500 and states[2][1] - states[1][1] > 300
    page.evaluate("begin = performance.now()")
    for motion in ("no-preference", "reduce"):
        page.emulate_media(reduced_motion=motion)
        live(page, "b")
        expect(page.locator(".where")).to_have_text("Round 1 of 12")
        page.evaluate("localStorage.removeItem('specdec-first-round')")
    assert page.evaluate("seen.length") == len(states), "no guess was held back again"


def test_after_the_slow_round_what_ran_meanwhile_is_shown_in_real_time(page: Page, server: Server) -> None:
    """Catches: one round in slow motion, and then the end at once."""
    said = messages()
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    page.evaluate("localStorage.removeItem('specdec-first-round')")
    page.evaluate("""() => {
      window.seen = [];
      const note = () => {
        const written = shadow.querySelectorAll(".leads .committed .tok").length;
        if (shadow.querySelector(".player.is-live") && written > (seen.at(-1) ?? 0)) seen.push(written);
      };
      new MutationObserver(note).observe(shadow, { subtree: true, childList: true });
    }""")
    live(page)
    expect(page.locator(".where")).to_have_text("Round 1 of 12", timeout=15_000)
    written = page.evaluate("seen")
    assert written == [step["total"] for step in _steps(1, spec_trace())], "round after round"


def test_a_new_run_forgets_who_led_the_run_before(page: Page, server: Server) -> None:
    """Catches: a second run that opens on plain decoding, without a tree, as one had looked at it in the first."""
    said = messages()
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    open_player(page, cursor={"round": 2, "node": None, "lead": 0})
    expect(page.locator(".leads .lane-label")).to_contain_text("Plain")
    here = {"round": 2, "node": None, "lead": 0}
    page.evaluate(
        "data => player.update(data)",
        data(mode="live", events="/runs/a/events", traces=[], prompt=None, cursor=here),
    )
    expect(page.locator(".where")).to_have_text("Round 1 of 12")
    expect(page.locator(".leads .lane-label")).to_contain_text("Draft model")


def test_a_record_that_the_page_names_meanwhile_waits_for_the_slow_first_round(
    page: Page, server: Server
) -> None:
    """Catches: the slow round drawn over the replay, its text and tree beside the odds and place of another round."""
    said = messages()
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said)) if last < 0 else []
    page.evaluate("localStorage.removeItem('specdec-first-round')")
    live(page)
    expect(page.locator(".transcript")).to_have_text("Round 1: the draft guessed 3 tokens.")
    page.evaluate(
        "data => player.update(data)", data()
    )  # the run was over at once, and the page has been redrawn
    page.wait_for_timeout(300)
    expect(page.locator(".transcript")).to_contain_text("Round 1")
    expect(page.locator(".where")).to_have_text("The end: every lane has finished", timeout=15_000)
    page.wait_for_timeout(1_000)  # nothing of the slow round comes after it
    expect(page.locator(".transcript")).not_to_contain_text("Round 1:")


# The calls in progress whenever something rejected is put into the page.
CROSSED = """() => {
  const append = Element.prototype.append;
  Error.stackTraceLimit = 100;
  window.crossed = new Set();
  Element.prototype.append = function (...parts) {
    if (this.matches(".prop.rejected")) {
      for (const [, name] of new Error().stack.matchAll(/\\/player\\/([\\w/]+\\.js)/g)) crossed.add(name);
    }
    return append.apply(this, parts);
  };
}"""


def test_a_rejected_token_crosses_the_files_that_the_architecture_lists(page: Page, server: Server) -> None:
    """From the stream to its pixels. Catches: one more file in between that docs/architecture.md does not name."""
    section = ARCHITECTURE.read_text(encoding="utf-8").split("### One click's way")[1].split("\n###")[0]
    said = messages()
    server.streams["/runs/a/events"] = lambda last: (
        [(id, said[id]) for id in range(len(said))] if last < 0 else []
    )
    page.evaluate(CROSSED)
    live(page)
    expect(page.locator(".prop.rejected").first).to_be_attached()
    crossed = set(page.evaluate("[...crossed]"))
    assert {"feed/feed.js", "lanes/ribbon.js"} <= crossed
    named = set(re.findall(r"`player/static/([\w/]+\.js)`", section))
    assert crossed <= named, crossed - named
