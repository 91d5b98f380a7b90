"""Walking through a finished run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.player.conftest import Server, data, open_player
from tests.player.samples import WORDS, Plan, plain_trace, spec_plans, spec_trace

pytestmark = pytest.mark.browser

COMMITTED = """at => [...shadow.querySelectorAll(`.lane[data-lane="${at}"] .committed .tok`)]
  .map(token => token.textContent).join("")"""
# The elements with the attributes a reader or a program could see; the slider's position and inline widths included.
# Once the player has scrolled, which it does in a frame.
SERIALISED = "() => new Promise(requestAnimationFrame).then(() => shadow.querySelector('.player').outerHTML)"


def stop_at(page: Page, stop: int) -> None:
    """Scrub to a stop, and wait until the player has scrolled there."""
    page.evaluate(
        """stop => {
          const slider = shadow.querySelector('.slider');
          slider.value = stop;
          slider.dispatchEvent(new Event('input'));
          return new Promise(requestAnimationFrame);
        }""",
        stop,
    )


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


def test_only_the_viewer_changes_the_speed_from_run_to_run(page: Page, server: Server) -> None:
    """Catches: a run at the pace of the race that played before it, and one that forgets the viewer's."""
    server.files["/traces/spec.json"] = spec_trace(spec_plans() * 2).to_json()
    server.files["/traces/next.json"] = server.files["/traces/last.json"] = spec_trace().to_json()
    speed = page.locator(".speed")
    run = "url => player.update({ ...JSON.parse(url[0]), traces: [{ label: url[1], url: url[1] }] })"
    open_player(page, autoplay=True)
    expect(speed).to_have_value("2")
    page.evaluate(run, [json.dumps(data()), "/traces/next.json"])
    expect(page.locator(".lane")).to_have_count(1)
    expect(speed).to_have_value("1")
    speed.select_option("4")
    page.evaluate(run, [json.dumps(data()), "/traces/last.json"])
    expect(page.locator(".lane-label")).to_have_text("/traces/last.json")
    expect(speed).to_have_value("4")


def test_speedup_is_the_ratio_of_the_lanes_rates(page: Page) -> None:
    open_player(page)
    ratio = spec_trace().stats.tokens_per_second / plain_trace().stats.tokens_per_second
    expect(page.locator(".speedup-value")).to_have_text(f"{ratio:.2f}×")
    expect(page.locator(".provenance:not(.slowed)")).to_have_text(
        "measured · this machine, this run · same text"
    )
    expect(page.locator(".speedup-title")).to_have_text("Measured speedup")
    stop_at(page, 0)
    expect(page.locator(".speedup-value")).to_have_text("—")
    expect(page.locator(".speedup-title")).to_have_text("Measured speedup against Plain")


def test_no_speedup_is_named_before_both_lanes_have_written_enough(page: Page) -> None:
    """Catches: "16× faster" over a lane of one token; the promise of a figure where every lane has ended."""
    least = plain_trace().stats.tokens
    open_player(page, least=least)
    expect(page.locator(".speedup-value")).not_to_have_text("—")
    page.locator(".control.previous").click()
    expect(page.locator(".speedup-value")).to_have_text("—")
    expect(page.locator(".speedup-words")).to_have_text(f"shown after {least} tokens in each lane")
    open_player(page, least=least + 1)
    expect(page.locator(".speedup-words")).to_have_text(f"none: fewer than {least + 1} tokens in a lane")


def test_a_stopped_run_is_not_called_finished(page: Page, server: Server) -> None:
    """Catches: "every lane has finished" over a run that somebody stopped."""
    expect_end = page.locator(".where")
    open_player(page)
    expect(expect_end).to_have_text("The end: every lane has finished")
    server.files["/traces/plain.json"] = replace(plain_trace(), end="cancelled").to_json()
    open_player(page)
    expect(expect_end).to_have_text("The end: the run was stopped")


def test_what_the_scatter_of_the_rounds_explains_is_not_called_faster(page: Page, server: Server) -> None:
    """Other work slows some of the plain lane's rounds. Catches: "faster" over luck, beside "not clearly" below it."""
    record = json.loads(plain_trace().to_json())
    for row in record["rounds"][4:8]:
        row["verify_s"] *= 9
    server.files["/traces/plain.json"] = json.dumps(record)
    server.files["/traces/spec.json"] = spec_trace(ms=22).to_json()
    open_player(page)
    assert float(page.locator(".speedup-value").inner_text().rstrip("×")) > 1.01
    expect(page.locator(".speedup-words")).to_have_text("the speed of Plain: not clearly faster")


def test_a_speedup_above_the_tokens_per_pass_is_called_noise(page: Page, server: Server) -> None:
    """Catches: "faster" of a figure that no guessing can reach, which the tiles below say of it."""
    server.files["/traces/spec.json"] = spec_trace(ms=2).to_json()
    open_player(page)
    most = len(spec_trace().output.ids) / len(spec_trace().rounds)
    expect(page.locator(".speedup-words")).to_have_text(
        f"the speed of Plain, above its {most:.2f} tokens per pass, so timing noise"
    )


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


def test_slower_is_said_as_plainly(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = spec_trace(ms=60).to_json()
    open_player(page)
    expect(page.locator(".speedup-words")).to_have_text("the speed of Plain: slower")
    assert float(page.locator(".speedup-value").inner_text().rstrip("×")) < 1


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
    from tests.player.conftest import data

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
    from tests.player.conftest import data

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


@pytest.mark.parametrize("width", [320, 390, 1024, 1920])
def test_no_sideways_scrolling(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_player(page, cursor={"round": 8, "node": 0})
    for stop in (0, 5, 11, 13):
        stop_at(page, stop)
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), f"stop {stop}"


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


def branching_record(wide: int, deep: int) -> dict[str, Any]:
    """A record whose first round is a tree: `wide` siblings at the root, each with a chain of `deep` nodes, one of its
    leaves pruned and one discarded, so that the node columns have gaps."""
    record: dict[str, Any] = json.loads(spec_trace().to_json())
    nodes = record["rounds"][0]["nodes"]
    parents: list[int] = []
    for _ in range(wide):
        parents.append(-1)
        parents += range(len(parents) - 1, len(parents) - 1 + deep)
    size = len(parents)
    verdicts = ["unreached"] * size
    verdicts[0], verdicts[1] = "accepted", "rejected"
    parents += [0, size - 1]
    verdicts += ["pruned", "discarded"]
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    nodes.update(parent=parents, depth=depths, verdict=verdicts, token=[at % 24 for at in range(size + 2)])
    for name in ("p", "q", "model_p", "coin", "threshold", "entropy", "rank"):
        nodes[name] = [1 if name == "rank" else 0.5] * size + [None, None]
    nodes["model_q"] = [0.5] * (size + 2)
    record["rounds"][0].update(riders=7, ahead_s=0.0042)
    record["rounds"][0]["committed"] = {"token": [nodes["token"][0], 3], "source": ["accepted", "corrected"]}
    return record


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


def test_a_lanes_name_says_what_its_proposer_does(page: Page) -> None:
    """Catches: a badge such as "EAGLE head" with which a newcomer is left alone."""
    words = {"none": "Proposes nothing.", "draft-model": "A smaller model writes ahead."}
    open_player(page, proposers=words)
    plain, draft = page.locator(".lane-lead").all()
    expect(plain).to_have_attribute("title", re.compile(r"^Proposes nothing\.\n\n.+ \(key 1\)$"))
    expect(draft).to_have_attribute("title", re.compile(r"^A smaller model writes ahead\.\n\n.+ \(key 2\)$"))


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


def test_below_a_form_the_whole_screen_comes_with_the_first_step_and_goes_with_another_run(
    page: Page,
) -> None:
    """Catches: a viewer who steps through the part that was left below a form; controls below the fold of the next."""
    page.set_viewport_size({"width": 1440, "height": 900})
    open_player(page, brief=True, cursor={"round": 1})
    player = page.locator(".player")
    expect(player).to_have_class(re.compile("is-brief"))
    low = page.locator(".stage").evaluate("part => part.clientHeight")
    page.locator(".control.next").click()
    expect(player).not_to_have_class(re.compile("is-brief"))
    assert page.locator(".stage").evaluate("part => part.clientHeight") > low
    open_player(page, brief=True, traces=[{"label": "Other", "trace": json.loads(spec_trace().to_json())}])
    expect(player).to_have_class(re.compile("is-brief"))


def test_below_a_form_the_odds_say_what_was_decided_and_nothing_is_cut_off(page: Page) -> None:
    """Catches: the heads of a table without a row, of which the panel has no more in sight."""
    page.set_viewport_size({"width": 1440, "height": 900})
    record = json.loads(spec_trace(temperature=0.0).to_json())
    open_player(
        page, brief=True, traces=[{"label": "Other", "trace": record}], cursor={"round": 1, "node": 0}
    )
    expect(page.locator(".choice")).to_be_visible()
    expect(page.locator(".odds .bars")).to_be_hidden()
    page.locator(".control.next").click()
    expect(page.locator(".odds .bars").first).to_be_visible()


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
        page, brief=True, traces=[{"label": name, "trace": record} for name in ("one", "two")],
        cursor={"round": 20, "lead": 1},
    )  # fmt: skip
    assert page.evaluate(IN_SIGHT) == 3


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
    assert tops == [tops[0]] * 6


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (1024, 768), (390, 844)])
def test_no_part_of_the_head_lies_over_another(page: Page, width: int, height: int) -> None:
    """Catches: the note about random tokens over the measured speedup, where the legend is left out."""
    page.set_viewport_size({"width": width, "height": height})
    open_player(page)
    expect(page.locator(".score .random")).to_be_visible()
    assert page.evaluate(OVERLAPPING) == []


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


def test_keys_still_work_when_a_pressed_button_was_drawn_anew(page: Page) -> None:
    """Catches: the focus lost with the button, so that the next ↓ scrolls the page."""
    trace = json.loads(spec_trace(temperature=0.0).to_json())
    open_player(page, traces=[{"label": "Draft", "trace": trace}], cursor={"round": 1})
    page.locator(".odds .tabs button").first.click()
    for number in (2, 3, 4):
        page.keyboard.press("ArrowDown")
        expect(page.locator(".where")).to_have_text(f"Round {number} of 12")


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
