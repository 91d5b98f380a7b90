"""Where a finished run opens: its most telling round."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import Server, open_player
from tests.player.samples import Plan, spec_plans, spec_trace

pytestmark = pytest.mark.browser

STOP = """async ([rounds, lost]) => {
  const { openingRound } = await import("/player/model/opening_round.js");
  return openingRound({ rounds: rounds.map(([parents, verdicts, tokens, names, total]) => ({
    total,
    tokens: Array.from({ length: tokens }, (_, at) => ({ name: names?.[at] ?? "" })),
    proposals: verdicts.map((verdict, node) => ({ node, parent: parents?.[node] ?? node - 1, verdict })),
  })) }, 1, lost);
}"""
A, R, U, CUT = "accepted", "rejected", "unreached", "cut"


def chain(*verdicts: str) -> list[Any]:
    return [None, list(verdicts), verdicts.count(A) + 1]


@pytest.mark.parametrize(
    ("rounds", "stop"),
    [
        ([chain(A, A, A), chain(A, R, U), chain(A, A, R), chain(R, U, U), chain()], 3),
        ([chain(A, A, R), chain(A, A, R), chain(A, R)], 2),  # of equals the last
        ([chain(A, A, A), chain(R, U, U), chain()], 1),  # no rejection after an acceptance: the largest win
        ([chain(A, A, R), chain(A, A, A, CUT)], 1),
        ([chain(R, U), chain()], 1),
        ([chain(), chain()], None),
        ([], None),
        ([[[-1, -1, 1], [R, A, A], 3], [[-1, -1, 1], [R, A, R], 2]], 1),  # of trees the most tokens
        ([[*chain(A, R), [" of", " all"]], [*chain(A, R), ["\n", "```"]]], 1),  # of equals the one with words
        ([[*chain(A, R), [" of", " all"]], [*chain(A, A, R), ["\n", " ", "`"]]], 2),  # but only of equals
        ([[[-1, -1, 0], [A, R, R], 2, [" a", " b"]], [[-1, -1, 0], [A, U, U], 2, [" c", " d"]]], 1),
        ([[[-1, -1, 0], [A, R, R], 2, ["(", ")"]], [[-1, -1, 0], [A, U, U], 2, [" of", " all"]]], 1),
        # the most tokens, however early and without a rejection
        ([[[-1, -1, 0], [A, U, A], 4, [" a", " b"], 4], [[-1, -1, 0], [A, R, A], 3, [" of", " all"], 30]], 1),
        ([[[-1, -1, 0], [A, R, R], 2, ["(", ")"], 2], [[-1, -1, 0], [A, U, U], 2, [" of", " all"], 9]], 2),
    ],
)
def test_the_most_telling_round(page: Page, rounds: list[Any], stop: int | None) -> None:
    """Catches: a run that opens where nothing was guessed."""
    assert page.evaluate(STOP, [rounds, False]) == stop


@pytest.mark.parametrize(
    ("rounds", "stop"),
    [
        # 12 tokens in 6 rounds: two in a typical one, not the lucky one's four
        ([chain(A, A, A, R), chain(R, U), chain(A, R), chain(A, R, U), chain(R, U), chain(A)], 4),
        ([chain(A, A, A), chain(R, U, U), chain()], 2),
        ([chain(), chain()], None),
    ],
)
def test_a_lane_that_lost_opens_on_a_typical_round(page: Page, rounds: list[Any], stop: int | None) -> None:
    """Catches: the luckiest round of a lane that was slower, and no answer to why."""
    assert page.evaluate(STOP, [rounds, True]) == stop


def test_a_slower_run_says_what_a_typical_round_kept(page: Page, server: Server) -> None:
    server.files["/traces/slow.json"] = spec_trace(spec_plans()[:9], ms=400.0).to_json()
    open_player(
        page,
        traces=[{"label": "A", "url": "/traces/plain.json"}, {"label": "B", "url": "/traces/slow.json"}],
        cursor={"round": None, "node": None, "lead": None},
    )
    expect(page.locator(".pace")).to_contain_text("A typical round, as this lane was slower: ")
    kept = page.locator(".now .tok.accepted").count()
    expect(page.locator(".pace")).to_contain_text(f", {kept} kept.")


@pytest.mark.parametrize("keys", [(), ("ArrowDown",), ("ArrowUp",)])
def test_a_round_that_is_looked_back_at_is_shown_by_slider_bars_and_sentence(
    page: Page, keys: tuple[str, ...]
) -> None:
    """Catches: a sentence about round 2 above a slider at the end; a step that goes on from somewhere else."""
    open_player(page, cursor={"round": 9, "node": None})
    page.locator(".leads .round[data-round='4'] .tok").first.click()
    page.locator(".player").focus()
    for key in keys:
        page.keyboard.press(key)
    wanted = 5 + {(): 0, ("ArrowDown",): 1, ("ArrowUp",): -1}[keys]
    expect(page.locator(".transcript")).to_contain_text(f"Round {wanted}: ")
    expect(page.locator(".where")).to_have_text(f"Round {wanted} of {len(spec_trace().rounds)}")
    expect(page.locator(".slider")).to_have_value(str(wanted))
    line, block = page.evaluate(
        """at => [".time-now", `.time-row.leads .time-round:nth-child(${at})`].map((name) =>
             shadow.querySelector(name).getBoundingClientRect()).map(({ left, right }) => [left, right])""",
        wanted,
    )
    assert abs(line[0] - block[1]) <= 3


def test_a_run_opens_there_unless_its_address_names_a_position(page: Page) -> None:
    words = [(" The", 0.9, 0.5, 0.1), (" cat", 0.1, 0.9, 0.8)]
    plans = [Plan([], "."), Plan([words[0], *words], " fox"), Plan(words, " mat"), Plan([], ".")]
    traces = [{"label": "Draft", "trace": json.loads(spec_trace(plans).to_json())}]
    where, hint = page.locator(".where"), page.locator(".pace")
    open_player(page, traces=traces, cursor={"round": None})
    expect(where).to_have_text("Round 2 of 4")
    expect(page.locator(".odds-title")).to_contain_text("‘\u00a0cat’ — rejected")
    expect(hint).to_contain_text("2 kept, then a rejection")
    expect(page.locator(".ended")).to_have_text("so far")
    page.locator(".player").focus()
    page.keyboard.press("End")
    expect(where).to_have_text("Round 4 of 4")
    expect(hint).to_have_text("")
    expect(page.locator(".ended")).to_have_text("length limit")
    open_player(page, traces=traces, cursor={"round": 3})
    expect(where).to_have_text("Round 3 of 4")
    expect(hint).to_have_text("")


FASTEST = """async (lanes) => {
  const { fastest } = await import("/player/model/state.js");
  return fastest(lanes.map(([proposer, tokens, end]) => ({
    proposer, rounds: tokens === null ? [] : [{ tokens: Array(tokens).fill({}), end }],
  })));
}"""


@pytest.mark.parametrize(
    ("lanes", "lead"),
    [
        ([("none", 9, 1.0), ("eagle", 8, 2.0), ("medusa", 4, 2.0)], 1),  # plain decoding is no answer
        ([("none", 9, 1.0), ("eagle", 2, 2.0), ("medusa", 4, 2.0)], 2),
        ([("none", 9, 1.0), ("eagle", None, 0), ("medusa", None, 0)], None),
        ([("none", 9, 1.0), ("eagle", 8, 2.0)], None),  # the last one leads anyway
        ([], None),
    ],
)
def test_of_several_guessing_lanes_the_fastest_opens(page: Page, lanes: list[Any], lead: int | None) -> None:
    """Catches: a comparison whose first figure is about whichever lane stands last."""
    assert page.evaluate(FASTEST, lanes) == lead


def test_the_whole_run_s_figure_is_of_the_lane_that_is_named(page: Page, server: Server) -> None:
    """Catches: "Measured speedup of D … 1.57× overall", where 1.57× is B's."""
    server.files["/traces/third.json"] = spec_trace(spec_plans()[:9], ms=14.0).to_json()
    traces = [
        {"label": label, "url": f"/traces/{name}.json"}
        for label, name in (("A", "plain"), ("B", "spec"), ("C", "third"))
    ]
    said = []
    for lead in (1, 2):
        open_player(page, traces=traces, cursor={"round": None, "node": None, "lead": None}, autoplay=False)
        page.locator(".lane-lead").nth(lead).click()
        for key in ("End", "ArrowUp", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)
        expect(page.locator(".speedup-title")).to_have_text(f"Measured speedup of {'ABC'[lead]} against A")
        whole = page.locator(".speedup-whole").inner_text()
        page.keyboard.press("End")
        expect(page.locator(".speedup-whole")).to_be_hidden()
        assert whole == f"{page.locator('.speedup-value').inner_text()} overall"
        page.keyboard.press("Home")  # no figure so far
        expect(page.locator(".speedup-whole")).to_have_text(whole)
        said.append(whole)
    assert said[0] != said[1]


def test_a_whole_run_that_no_guessing_explains_is_called_noise(page: Page, server: Server) -> None:
    """Catches: “8.47× overall” of a lane with three tokens per pass, beside a lane that a busy machine slowed."""
    server.files["/traces/third.json"] = spec_trace(spec_plans()[:9], ms=1.0).to_json()
    traces = [
        {"label": label, "url": f"/traces/{name}.json"} for label, name in (("A", "plain"), ("B", "third"))
    ]
    open_player(page, traces=traces, cursor={"round": None, "node": None, "lead": None}, autoplay=False)
    page.locator(".lane-lead").nth(1).click()
    page.keyboard.press("Home")
    expect(page.locator(".speedup-whole")).to_contain_text("× overall: noise")
    said = page.locator(".speedup-whole").get_attribute("title") or ""
    assert said.endswith("tokens per pass, so timing noise")
