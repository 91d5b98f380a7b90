"""What newcomers asked and a hunt for wrong numbers found, in the player: one test for each answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import specdec_core as sd
from app.metrics import numbers
from specdec_core.proposers import PROPOSERS
from specdec_measure.analysis.slow_passes import held_up
from tests.core.test_foreign_draft import across
from tests.player.conftest import Server, open_player
from tests.player.samples import plain_trace, spec_plans, spec_trace
from tests.player.test_in_sight import EAGLE, opened, tree
from tests.player.test_odds import CHART, JUDGED
from tests.player.views import ALL, PROMPT, look, models, recorded, show_moment, stage

pytestmark = pytest.mark.browser

PEAKED = {"temperature": 0.7, "top_p": 0.5, "seed": 2}  # often one token is left to draw
INDEPENDENT = '{"draw": "independent"}'


def shown(page: Page, server: Server, trace: sd.Trace, stop: int, view: str = "tree") -> None:
    """The whole player at the end of a round."""
    opened(page, server, json.loads(trace.to_json()), round=stop, view=view)


@contextmanager
def another_page(browser: Browser, server: Server, **options: Any) -> Iterator[Page]:
    """A page unlike that of the other tests, whose clock can be moved; no error may occur in it."""
    page = browser.new_page(**options)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.clock.install()
    try:
        page.goto(server.url)
        page.wait_for_function("window.ready")
        yield page
        assert errors == []
    finally:
        page.close()


def test_an_entropy_above_one_is_shown_as_it_is(page: Page) -> None:
    """Catches: "1" of every uncertain place, as of a probability above 1."""
    trace = recorded("draft-model")
    stage(page, trace)
    places = [
        (row, node)
        for row in trace.rounds
        for node, verdict in enumerate(row.nodes.verdict)
        if verdict == "unreached" and row.nodes.parent[node] not in [place.at for place in row.positions]
    ]
    what = "() => shadow.querySelector('.facts [data-name=entropy]').innerText"
    said = look(page, [(row.index + 1, ALL, node) for row, node in places], what)
    entropies = [(row.nodes.entropy or [])[node] or 0.0 for row, node in places]
    assert said == [f"{entropy:.3f}" for entropy in entropies]
    assert max(entropies) > 1.0


def recorded_anywhere(proposer: str, options: str = "{}") -> sd.Trace | None:
    """40 tokens at temperature 1: of the bundled models, or of a draft with another tokenizer; None if neither can."""
    changes = {"options": json.loads(options), "max_new_tokens": 40, "temperature": 1.0}
    for family, prompt in ((models(), PROMPT), (across("reordered"), "the cat sat")):
        if PROPOSERS[proposer].why_not(family, person=False) is None:
            return sd.decode(family, prompt, sd.Settings(proposer=proposer, **changes))
    return None


@pytest.mark.parametrize(
    ("proposer", "options"),
    [
        *[(name, "{}") for name in PROPOSERS],
        ("branching", INDEPENDENT),
        ("branching", '{"draw": "likeliest"}'),
        ("oracle", '{"guess": "most-likely"}'),
        ("blind", '{"guess": "unigram"}'),
        ("blind", '{"guess": "repeat-last"}'),
    ],
)
def test_the_player_knows_whose_guesses_are_drawn(page: Page, proposer: str, options: str) -> None:
    """Only a drawn guess has a q other than 1. Catches: a proposer or an option that the player's list forgets."""
    trace = recorded_anywhere(proposer, options)
    if trace is None:
        assert proposer == "you", "a person guesses, and there is none"
        return
    drawn = any(q not in (None, 1.0) for row in trace.rounds for q in row.nodes.q or [])
    assert trace.stats.proposed > 0 or proposer == "none"
    stage(page, trace)
    assert page.evaluate("lane.draws") is drawn, (
        f"'{proposer}' {'draws' if drawn else 'does not draw'} its guesses: see DRAWING in the player's model.js"
    )


def test_a_drawn_chain_is_one_also_where_every_q_is_1(page: Page, server: Server) -> None:
    """Catches: guesses that were drawn from the one token that a cut-off left, called fixed, with the model's own q."""
    trace = recorded("draft-model", max_new_tokens=40, **PEAKED)
    rounds = [row for row in trace.rounds if row.nodes.q and set(row.nodes.q) == {1.0}]
    assert len(rounds) > 2
    stage(page, trace)
    judged = [(row.index + 1, ALL, 0) for row in rounds]
    for (stop, _, _), drawn in zip(judged, look(page, judged, CHART), strict=True):
        token = str(trace.rounds[stop - 1].nodes.token[0])
        assert "What p and q share" in drawn["text"] and "fixed" not in drawn["text"]
        assert [each["q"] for each in drawn["rows"] if each["token"] == token] == [1]
    show_moment(page, judged[0][0], 0, 0)
    assert "q is what the proposer drew from" in page.locator(".odds").inner_text()
    for row in rounds[:3]:
        shown(page, server, trace, row.index + 1)
        titles = page.locator(".tree .chip:not(.ghost)").evaluate_all("all => all.map(each => each.title)")
        assert len(titles) == len(row.nodes.token) and all("q 1," in f"{title}," for title in titles), titles


@pytest.mark.parametrize("width", [390, 1280])
def test_keys_go_on_when_what_had_the_focus_is_gone(page: Page, server: Server, width: int) -> None:
    """Catches: the focus lost with the view that it was in, so that the second V does nothing."""
    page.set_viewport_size({"width": width, "height": 844})
    shown(page, server, recorded("prompt-lookup"), 1, "odds")
    page.get_by_role("button", name="How sure the models were").click()
    current, seen = page.locator(".panel-tab[aria-pressed=true]"), []
    for _ in range(5):
        seen.append(current.inner_text())
        page.keyboard.press("v")
    assert all(one != other for one, other in pairwise(seen)), seen
    tabs = page.locator(".panel-tab:visible").all_inner_texts()
    assert set(seen) == set(tabs) and len(tabs) > 2


SCROLLED = """() => [shadow.querySelector(".odds"), shadow.querySelector(".panels"), document.scrollingElement]
  .map(({ scrollTop, scrollHeight, clientHeight }) => [scrollTop, scrollHeight - clientHeight])"""


@pytest.mark.parametrize("size", [(1280, 720), (1024, 640), (390, 844)])
def test_more_tokens_leave_the_panel_where_it_was(page: Page, server: Server, size: tuple[int, int]) -> None:
    """Catches: a list that grows below its button, and with it a panel that is scrolled elsewhere."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    shown(page, server, recorded("draft-model"), 1, "tree" if size[0] > 1200 else "odds")
    more = page.locator(".odds .more-rows")
    for _ in range(2):
        more.scroll_into_view_if_needed()
        before = page.evaluate(SCROLLED)
        assert max(top for top, _ in before) > 0, "nothing had to be scrolled"
        words = more.inner_text()
        more.click()
        expect(more).not_to_have_text(words)
        expect(more).to_be_focused()
        after = page.evaluate(SCROLLED)
        assert [top for top, _ in after] == [
            min(top, room) for (top, _), (_, room) in zip(before, after, strict=True)
        ]


SIZES = "all => all.flatMap(each => [each.offsetWidth, each.offsetHeight])"


def test_on_a_phone_larger_is_not_smaller(page: Page, server: Server) -> None:
    """Catches: columns that shrink at "+", as they were wider than their rows are high."""
    page.set_viewport_size({"width": 390, "height": 844})
    chips = page.locator(".tree .chip")
    for button, sign in (("larger", 1), ("smaller", -1)):
        opened(page, server, tree(*EAGLE))
        for _ in range(2):
            before = chips.evaluate_all(SIZES)
            page.locator(f".zoom-button.{button}").click()
            after = chips.evaluate_all(SIZES)
            changes = [new - old for old, new in zip(before, after, strict=True)]
            assert all(change * sign >= 0 for change in changes), (before, after)
            assert before != after or button == "smaller"  # it is as small as it may be


A, R, U = "accepted", "rejected", "unreached"


@pytest.mark.parametrize(
    "shape",
    [EAGLE, ([-1, -1, 0], [R, R, U]), ([-1, -1, 0], [A, U, R]), ([-1, -1, 0], [A, U, A]), ([-1, -1], [R, R])],
)
def test_lines_are_named_only_where_something_is_in_the_second(
    page: Page, server: Server, shape: tuple[list[int], list[str]]
) -> None:
    """Catches: "Continued on the next line" over the room that waits there for the target's own token."""
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, server, tree(*shape))
    left = [box["x"] for chip in page.locator(".tree .chip").all() if (box := chip.bounding_box())]
    last = max((node for node, verdict in enumerate(shape[1]) if verdict == A), default=-1)
    above = [*shape[0], last]
    assert len(left) == len(above)
    below = any(left[node] <= left[parent] for node, parent in enumerate(above) if parent >= 0)
    expect(page.locator(".tree .note-lines")).to_be_visible(visible=below)


def test_nothing_was_compared_of_a_pruned_guess(page: Page) -> None:
    """Catches: the chance of its siblings, to be accepted, in the panel of a guess that the target never saw."""
    trace = recorded("eagle", max_new_tokens=60)
    stage(page, trace)
    for verdict in ("pruned", "rejected"):
        places = [
            (row.index + 1, ALL, node)
            for row in trace.rounds
            for node, found in enumerate(row.nodes.verdict)
            if found == verdict and row.nodes.parent[node] in [place.at for place in row.positions]
        ]
        assert len(places) > 3
        for drawn in look(page, places, CHART, press=JUDGED):
            said = "What was compared" in drawn["text"], "Σ p" in drawn["text"]
            assert said == (verdict == "rejected",) * 2, drawn["text"]


@pytest.mark.parametrize(("start", "length", "inside"), [(1, 2, True), (2, 2, False), (3, 1, False)])
def test_a_match_across_the_prompt_s_end_is_in_its_own_text(
    page: Page, server: Server, start: int, length: int, inside: bool
) -> None:
    """Catches: "in the prompt" of words that the target wrote in part, and two answers in two places."""
    trace = json.loads(spec_trace().to_json())
    assert len(trace["header"]["prompt_ids"]) == 3
    trace["header"]["settings"]["proposer"] = "prompt-lookup"
    trace["rounds"][2]["note"] = {"match_start": start, "match_length": length, "copied": 1, "matches": 1}
    opened(page, server, trace, round=3, step=0, view="window")
    said = page.locator(".transcript").inner_text()
    assert ("in the prompt" in said, "in its own text" in said) == (inside, not inside), said
    line = page.locator(".window .window-line").inner_text()
    assert ("in the prompt" in line, "in the answer" in line) == (inside, not inside), line


@pytest.mark.parametrize("touched", [None, "ArrowUp", "Space"])
def test_what_played_by_itself_rests_at_its_end_or_where_the_viewer_left_it(
    browser: Browser, server: Server, touched: str | None
) -> None:
    """By a clock that is moved. Catches: a film that rewinds past its own finish."""
    server.files["/traces/spec.json"] = spec_trace(spec_plans()[:4]).to_json()
    with another_page(browser, server) as page:
        open_player(page, autoplay=True)
        page.clock.pause_at(page.evaluate("Date.now() / 1000 + 1"))
        where, end = page.locator(".where"), "The end: every lane has finished"
        for _ in range(60):
            if (at := where.inner_text()) == end or (touched == "Space" and at.startswith("Round")):
                break
            page.clock.run_for(250)
        assert (where.inner_text() == end) == (touched != "Space")
        if touched:
            page.locator(".player").press(touched)
        stands = where.inner_text()
        assert (stands == end) == (touched is None)
        page.clock.run_for(5_000)
        expect(where).to_have_text(stands)


@pytest.mark.parametrize(
    ("proposer", "options", "changes"),
    [("eagle", "{}", {}), ("medusa", "{}", {"rule": "typical"}), ("branching", INDEPENDENT, {"seed": 1})],
)
def test_counts_by_level_are_the_rates_of_the_record(
    proposer: str, options: str, changes: dict[str, Any]
) -> None:
    """Catches: siblings counted one by one, where the rate counts rounds; a level that is left out."""
    trace = recorded(proposer, options, max_new_tokens=40, **changes)
    rates = trace.stats.acceptance_by_depth
    assert trace.stats.acceptance_rate is None and len(rates) > 2 and 0 < min(rates[:2]) < 1
    for most in (1, 3, 99):
        name, _, counts = numbers.by_level(trace, most).partition(": ")
        parts = [[int(number) for number in part.split(" of ")] for part in counts.split(", ")]
        assert [taken / judged for taken, judged in parts] == pytest.approx(rates[:most])
        assert name == ("level 1" if most == 1 else f"levels 1 to {len(parts)}")


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"min_p": 1.0}, {"top_k": 2}])
def test_no_chance_is_named_where_one_token_is_left_to_draw(
    page: Page, server: Server, settings: dict[str, Any]
) -> None:
    """Catches: "drawn at random" over texts that no seed changes."""
    texts = {recorded("none", temperature=1.0, seed=seed, **settings).text for seed in (1, 2, 3)}
    chance = len(texts) > 1
    assert chance == (settings == {"top_k": 2})
    plain, other = (recorded(name, temperature=1.0, seed=1, **settings) for name in ("none", "draft-model"))
    same, said = numbers.verdict_on_texts(plain, other)
    assert ("at random" in said) == chance and (same is None) == chance, said
    for name, trace in (("plain", plain), ("spec", other)):
        server.files[f"/traces/{name}.json"] = trace.to_json()
    open_player(page)
    expect(page.locator(".random")).to_be_visible(visible=chance)
    assert chance == ("random" in page.locator(".score").inner_text())


def font(part: Locator) -> float:
    size: float = part.evaluate("each => parseFloat(getComputedStyle(each).fontSize)")
    return size


@pytest.mark.parametrize("width", [390, 1280])
def test_the_large_figure_is_the_whole_run_s(page: Page, width: int) -> None:
    """Catches: what a part of the run gave, in large type, taken for what the run gave."""
    page.set_viewport_size({"width": width, "height": 844})
    open_player(page, cursor={"round": 8, "node": None})
    figure, value = page.locator(".speedup-figure"), page.locator(".speedup-value")
    expect(page.locator(".speedup-words")).to_have_text("so far")
    whole, large = figure.inner_text(), font(figure)
    assert value.inner_text() != whole
    assert large > 1.3 * font(value)
    page.locator(".player").press("End")
    expect(figure).to_be_hidden()
    expect(value).to_have_text(whole)
    assert font(value) == large


def test_a_lane_s_speedup_says_over_what(page: Page) -> None:
    """Catches: "1.45× A · Plain decoding", a figure beside a name and no word between."""
    traces = [
        {"label": f"{letter} · {name}", "url": f"/traces/{name}.json"}
        for letter, name in zip("ABC", ("plain", "spec", "spec"), strict=True)
    ]
    open_player(page, traces=traces, cursor={"round": None, "node": None})
    said = page.locator(".lane .ratio").nth(1)
    expect(said).to_be_visible()
    expect(said).to_have_text(re.compile(r"^\d\.\d\d× against A · plain$"))


def swiped(page: Page, part: Locator) -> None:
    """A finger that scrolls the page, from near the right end of what it touches."""
    box = part.bounding_box()
    assert box is not None
    x, y = box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2
    finger = page.context.new_cdp_session(page)
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 12):
        point = {"x": x - step, "y": y - 20 * step}
        finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_reads_titles_and_scrolls_from_the_slider(browser: Browser, server: Server) -> None:
    """Catches: words that only a pointer can bring up, and a round that is lost as the page is scrolled."""
    with another_page(
        browser, server, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    ) as page:
        page.add_style_tag(content="body { padding-bottom: 900px !important }")
        open_player(page, cursor={"round": 3, "node": None})
        phases, words = page.locator(".phases"), page.locator(".touch-title")
        expect(words).to_be_hidden()
        phases.tap()
        expect(words).to_have_text(phases.get_attribute("title") or "-")
        expect(words).to_be_in_viewport(ratio=1)
        phases.tap()
        expect(words).to_be_hidden()
        page.locator(".tree .chip").first.tap()  # has a title, and does something else
        expect(words).to_be_hidden()
        swiped(page, page.locator(".slider"))
        page.wait_for_function("scrollY > 50")
        expect(page.locator(".where")).to_have_text("Round 3 of 12")


HELD = """async (seconds) => {
  const { usualInstead } = await import("/player/model/held_up.js");
  const rounds = seconds.map(([verify_s, width]) => ({ verify_s, nodes: { token: Array(width).fill(1) } }));
  return rounds.map((row, at) => usualInstead({ rounds }, at));
}"""


@pytest.mark.parametrize(
    ("passes", "usual"),
    [
        ([(0.25, 4), *[(0.016, 4)] * 6], [0.016, *[None] * 6]),
        ([(0.031, 4), *[(0.016, 4)] * 6], [None] * 7),  # not twice as long
        ([(0.25, 64), *[(0.016, 4)] * 6], [None] * 7),  # the only one as wide
        ([(0.25, 4), *[(0.016, 4)] * 4], [None] * 5),  # too few to say what is usual
        ([(0.0, 4)] * 7, [None] * 7),
    ],
)
def test_a_pass_that_was_held_up_says_what_is_usual(
    page: Page, passes: list[Any], usual: list[float | None]
) -> None:
    """Catches: a first pass of 257 ms beside others of 16 without a word, and a wide one called slow."""
    assert page.evaluate(HELD, passes) == usual


NAMED = """async (trace) => {
  const { usualInstead } = await import("/player/model/held_up.js");
  return trace.rounds.map((row, at) => (usualInstead(trace, at) === null ? null : at)).filter((at) => at !== null);
}"""


def test_the_player_names_the_passes_that_the_sentence_below_a_run_counts(page: Page) -> None:
    """Catches: a rule written twice, once for the page and once for the decoder, that comes apart."""
    trace = recorded("eagle", '{"nodes": 4, "depth": 3, "top_k": 2}')
    for slow in ({2}, {1, 5}, set()):
        rounds = [
            replace(row, verify_s=0.3 + 0.01 * at if at in slow else 0.01 + at / 1e4)
            for at, row in enumerate(trace.rounds)
        ]
        changed = replace(trace, rounds=rounds)
        assert page.evaluate(NAMED, json.loads(changed.to_json())) == sorted(held_up(changed)) == sorted(slow)


def test_the_time_bar_bars_a_pass_that_was_held_up(page: Page, server: Server) -> None:
    """Catches: a long block that looks like the target's usual work, and only says why once it is opened."""
    open_player(page)
    expect(page.locator(".slowed")).to_be_hidden()
    plain = plain_trace()
    rounds = [replace(row, verify_s=1.0) if at == 9 else row for at, row in enumerate(plain.rounds)]
    server.files["/traces/plain.json"] = replace(plain, rounds=rounds).to_json()
    open_player(page)
    legend = page.locator(".time-key .held")
    expect(page.locator(".time-round.held")).to_have_count(1)
    expect(legend).to_be_visible()
    expect(page.locator(".slowed")).to_have_text("Plain slowed by other programs")
    page.locator(".player").press("Home")
    expect(page.locator(".time-round.held")).to_have_count(0)  # not before it happens
    expect(legend).to_be_hidden()


def test_back_in_a_lane_the_round_is_the_one_that_was_left(page: Page) -> None:
    """Catches: a look at plain decoding that costs the place; a place that is brought back after moving on."""
    open_player(page, cursor={"round": 5, "node": None})
    page.locator(".player").press("ArrowLeft")  # within the round
    where = page.locator(".where")
    was = where.inner_text()
    page.keyboard.press("1")
    expect(where).not_to_have_text(was)
    page.keyboard.press("2")
    expect(where).to_have_text(was)
    page.keyboard.press("1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("2")
    expect(where).not_to_have_text(was)
