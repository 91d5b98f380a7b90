"""The proposer's own view against the proposer's own state, the record's texts and its times."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import specdec_core as sd
from specdec_core.proposers.lookup.lookahead import Lookahead

from .conftest import Server, open_player
from .samples import spec_trace
from .views import ALL, PROMPT, models, phases, recorded, show_moment, stage

pytestmark = pytest.mark.browser

COPYING = (
    "Passage: Once upon a time there was a small frog named Finn. Finn lived near a pond with his big family.\n"
    "Repeat: Once upon a time there"
)
WINDOW = """() => {
  const all = selector => [...shadow.querySelectorAll(selector)];
  const ids = (root, selector) => [...root.querySelectorAll(selector)].map(cell => Number(cell.dataset.id));
  const grams = selector => all(selector).map(item => item.dataset.gram.split(" ").map(Number));
  return {
    levels: [...shadow.querySelectorAll(".window-row:not(.heads)")].map(row => ids(row, ".window-cell")),
    initial: [...shadow.querySelectorAll(".window-cell")].map(cell => cell.classList.contains("initial")),
    left: [...shadow.querySelectorAll(".window-row:not(.heads)")].map(row =>
      [...row.querySelectorAll(".window-cell")].map(cell => Math.round(cell.getBoundingClientRect().left))),
    tried: grams(".phrase.tried"), found: grams(".found .phrase"),
    recent: grams(".phrases:not(.found) .phrase:not(.tried)"),
    tokens: all(".phrase.tried [data-node]").map(item => [Number(item.dataset.node), item.className]),
  };
}"""


def test_the_window_is_the_proposers_state(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round of a run on the bundled models, beside what the proposer itself held when it proposed and after it
    had observed. Catches: a window drawn the wrong way round, phrases of another round, a verdict on the wrong
    token."""
    proposed: list[dict[str, Any]] = []
    observed: list[dict[str, Any]] = []

    def spied(method: Callable[..., Any], into: list[dict[str, Any]]) -> Callable[..., Any]:
        def call(self: Lookahead, *rest: Any) -> Any:
            answer = method(self, *rest)
            state = {"columns": self.columns, "generated": self.generated, "pool": list(self.pool._all)}
            into.append(copy.deepcopy(state | {"tried": self.tried}))
            return answer

        return call

    monkeypatch.setattr(Lookahead, "propose", spied(Lookahead.propose, proposed))
    monkeypatch.setattr(Lookahead, "observe", spied(Lookahead.observe, observed))
    options = {"from_prompt": True, "window": 4, "ngram": 4}
    settings = sd.Settings(proposer="lookahead", options=options, temperature=1.0, seed=3, max_new_tokens=28)
    trace = sd.decode(models(), PROMPT, settings)
    assert len(trace.rounds) == len(proposed) == len(observed)
    stage(page, trace)
    tried, found = 0, 0
    for row, before, after in zip(trace.rounds, proposed, observed, strict=True):
        stop, levels = row.index + 1, [list(level) for level in zip(*before["columns"], strict=True)]
        known = {phase: event for event, (phase, _) in enumerate(phases(page, stop))}
        first = min(known.values())
        show_moment(page, stop, first)
        drawn = page.evaluate(WINDOW)
        assert drawn["levels"][: len(levels)] == levels
        lefts = {
            place: left for level, row_ in enumerate(drawn["left"]) for place, left in enumerate(row_, level)
        }
        for level, row_ in enumerate(drawn["left"]):  # what guesses the same position stands in one column
            assert [lefts[place] for place in range(level, level + len(row_))] == row_
        initial = [
            bool(level or column) and level < len(levels) - before["generated"][column]
            for level in range(len(levels))
            for column in range(len(levels[0]))
        ]
        assert drawn["initial"][: len(initial)] == initial
        assert drawn["tried"] == [list(gram) for gram in before["tried"]]
        root = before["columns"][0][0]
        assert drawn["recent"] == [list(gram) for gram in reversed(before["pool"]) if gram[0] != root][:8]
        assert drawn["found"] == []
        if "proposed" in known:
            assert len(drawn["levels"]) == len(levels), "what the pass found is drawn before the pass"
        show_moment(page, stop, ALL)
        drawn = page.evaluate(WINDOW)
        new = {gram for gram in after["pool"] if gram not in set(before["pool"])}
        assert new <= {tuple(gram) for gram in drawn["found"]}  # one may have gone again at once
        assert not {tuple(gram) for gram in drawn["found"]} & set(before["pool"])
        found += len(new)
        if row.riders:
            moved = len(row.committed.token) - 1  # beyond the one position that the levels themselves move up
            newest = drawn["levels"][len(levels)]
            kept = [column[-1] for column in after["columns"][: len(newest) - moved]]
            assert newest[moved:] == kept
        for node, kind in drawn["tokens"]:
            assert row.nodes.verdict[node] in kind
        assert {node for node, _ in drawn["tokens"]} == set(range(len(row.nodes.token)))
        tried += len(drawn["tried"])
    assert tried > 3 and found > 20


def test_what_the_window_found_waits_for_its_moment(page: Page) -> None:
    trace = recorded("lookahead", '{"from_prompt": true}')
    stage(page, trace)
    row = next(row for row in trace.rounds if row.nodes.token and row.note["harvested"])
    for event, (phase, _) in enumerate(phases(page, row.index + 1)):
        html = show_moment(page, row.index + 1, event)
        assert ("window-cell newest" in html) == (phase != "proposed")
        assert ("New in the pool" in html) == (phase == "committed")
        assert ("phrase-token waiting" in html) == (phase in ("proposed", "verified") or "waiting" in html)
        assert phase not in ("proposed", "verified") or not re.search(
            "phrase-token (accepted|rejected)", html
        )


def test_a_lookahead_record_without_the_newer_notes_draws_what_it_has(page: Page) -> None:
    record = json.loads(recorded("lookahead", '{"from_prompt": true}').to_json())
    for row in record["rounds"]:
        row["note"] = {name: row["note"][name] for name in ("window", "generated", "pool", "guesses")}
        row["note"]["harvested"] = [[1, 2, 3]]  # meant the round before
    stage(page, record)
    show_moment(page, 3, ALL)
    drawn = page.evaluate(WINDOW)
    assert drawn["levels"] == record["rounds"][2]["note"]["window"]
    assert drawn["found"] == drawn["recent"] == []
    record["rounds"][2]["note"] = {}
    stage(page, record)
    show_moment(page, 3, ALL)
    expect(page.locator(".window")).to_contain_text("does not hold the window")


ARROW = """() => {
  const box = shadow.querySelector(".lookup-text").getBoundingClientRect();
  const rect = element => {
    const { left, right, top, bottom } = element.getClientRects()[0];
    return { left, right, top, bottom };
  };
  const path = shadow.querySelector(".arrow path");
  const at = path && path.getAttribute("d").match(/-?[\\d.]+/g).map(Number);
  return {
    start: at && [at[0] + box.left, at[1] + box.top], end: at && [at[6] + box.left, at[7] + box.top],
    from: rect(shadow.querySelector(".lookup-text .copied")), to: rect(shadow.querySelector(".ghost")),
  };
}"""


def _joined(page: Page, selector: str) -> str:
    texts: list[str] = page.locator(selector).evaluate_all("all => all.map(each => each.textContent)")
    return "".join(texts)


@pytest.mark.parametrize("match", ["longest", "first", "last", "most-frequent"])
def test_the_arrow_leads_from_the_tokens_that_were_copied(page: Page, match: str) -> None:
    """Every round of a text that repeats its prompt. Catches: a highlight that is one token off, an arrow from the
    match in place of what followed it, and text later than the round."""
    settings = sd.Settings(
        proposer="prompt-lookup", options={"match": match}, draft_length=5, max_new_tokens=24
    )
    trace = sd.decode(models(), COPYING, settings)
    stage(page, trace)
    found, text = 0, [*trace.header.prompt_texts]
    for row in trace.rounds:
        show_moment(page, row.index + 1, 0)
        shown = _joined(page, ".lookup-text .piece")
        assert shown == "".join(text)
        if row.note["match_start"] is None:
            expect(page.locator(".window")).to_contain_text("does not occur earlier")
            assert page.locator(".arrow, .copied, .matched").count() == 0
        elif row.nodes.token:
            found += 1
            copied = "".join(trace.texts[str(token)] for token in row.nodes.token)
            assert _joined(page, ".lookup-text .copied") == copied
            length = int(str(row.note["match_length"]))
            assert _joined(page, ".lookup-text .suffix") == "".join(text[-length:])
            matched = _joined(page, ".lookup-text .matched")
            assert matched == "".join(text[-length:])
            assert page.locator(".ghost.waiting").count() == len(row.nodes.token)
            drawn = page.evaluate(ARROW)
            (x, y), source = drawn["start"], drawn["from"]
            assert source["left"] <= x <= source["right"] and source["top"] <= y <= source["bottom"] + 1
            (x, y), target = drawn["end"], drawn["to"]
            assert target["left"] <= x <= target["right"] and target["top"] - 1 <= y <= target["bottom"] + 1
            places = row.note["matches"]
            expect(page.locator(".window")).to_contain_text(
                "There was one such place" if places == 1 else f"There were {places} such places"
            )
        show_moment(page, row.index + 1, ALL)
        for node, verdict in enumerate(row.nodes.verdict):
            assert verdict in str(page.locator(f".ghost[data-node='{node}']").get_attribute("class"))
        text += [
            trace.output.texts[len(text) - len(trace.header.prompt_texts) + at]
            for at in range(len(row.committed.token))
        ]
    assert found > 2


def test_a_long_text_is_folded_between_the_match_and_the_end(page: Page) -> None:
    record = json.loads(
        sd.decode(models(), COPYING, sd.Settings(proposer="prompt-lookup", max_new_tokens=6)).to_json()
    )
    row, size = record["rounds"][0], len(record["header"]["prompt_ids"])
    start, length, copied = (row["note"][name] for name in ("match_start", "match_length", "copied"))
    record["header"]["prompt_ids"][start + length + copied : start + length + copied] = [1] * 300
    record["header"]["prompt_texts"][start + length + copied : start + length + copied] = ["~"] * 300
    stage(page, record)
    show_moment(page, 1, 0)
    shown = _joined(page, ".lookup-text .piece")
    assert shown.count("~") < 60
    gaps = [
        int(number) for number in re.findall(r"… (\d+) tokens? …", page.locator(".lookup-text").inner_text())
    ]
    tokens = 24 + 24 + length + copied if start >= 24 else 24 + 24 + start + length + copied
    assert sum(gaps) == size + 300 - tokens
    assert page.locator(".arrow").count() == 1


@pytest.mark.parametrize("proposer", ["draft-model", "branching"])
def test_work_drafted_ahead_is_drawn_to_scale_and_what_was_lost_is_hatched(page: Page, proposer: str) -> None:
    trace = recorded(proposer, overlap=True, temperature=0.0)
    stage(page, trace)
    lost = 0
    for row in trace.rounds:
        for event, (phase, _) in enumerate(phases(page, row.index + 1)):
            show_moment(page, row.index + 1, event)
            assert page.locator(".gantt").count() == (phase == "committed")
            assert page.locator(".lost-token").count() == 0 or phase == "committed"
        bars = dict(
            page.locator(".phase").evaluate_all(
                "all => all.map(each => [each.classList[1], each.getBoundingClientRect().width])"
            )
        )
        gone = row.nodes.verdict.count("discarded")
        lost += gone
        assert ("gone" in bars) == bool(gone and row.ahead_s)
        assert page.locator(".lost-token").count() == min(gone, 64)
        ahead = bars.get("gone", bars.get("ahead", 0.0))
        assert ahead / bars["verify"] == pytest.approx(row.ahead_s / row.verify_s, rel=0.02, abs=0.01)
        if taken := row.note.get("ahead", row.note.get("ahead_levels")):
            assert re.search(rf"\b{taken} (guess|level)", page.locator(".window").inner_text())
    assert lost > 3
    show_moment(page, 1 + next(row.index for row in trace.rounds if "discarded" in row.nodes.verdict), ALL)
    for hatched in (".phase.gone", ".lost-token"):
        texture = page.locator(hatched).first.evaluate("each => getComputedStyle(each).backgroundImage")
        assert "repeating-linear-gradient" in texture


@pytest.mark.parametrize(
    ("proposer", "words"),
    [
        ("medusa", r"\d+ heads? .* From their lists \d+ guesses were sent to the target"),
        ("eagle", r"the head drafted \d+ candidates"),
        ("early-exit", r"first \d+ layers"),
        ("block", r"One pass of the head made the guesses of 7 slots; \d+ guesses were sent"),
        (
            "parallel-draft",
            r"pass of the draft over 1 token of the text and 3 mask tokens made these 4 guesses; none",
        ),
        ("suffix", r"last (token|\d+ tokens) occurs? at \d+ earlier place|No earlier place gave"),
        ("recycling", r"Successors of \d+ tokens were known.*; from these \d+ node"),
    ],
)
def test_heads_exit_and_counts_are_one_line(page: Page, proposer: str, words: str) -> None:
    trace = recorded(proposer, max_new_tokens=8)
    stage(page, trace)
    show_moment(page, 1, 0)
    lines = page.locator(".window .window-line")
    assert lines.count() == 1 and re.search(words, lines.inner_text())


@pytest.mark.parametrize("proposer", ["medusa", "eagle", "eagle3", "mtp"])
@pytest.mark.parametrize(
    ("temperature", "penalty", "tree"),
    [
        (0.0, 1.0, None),
        (0.0, 1.3, None),
        (1.0, 1.0, None),
        (1.0, 1.3, None),
        (0.0, 1.0, 1.0),
        (1.0, 1.3, 0.5),
    ],
)
def test_guesses_rank_by_the_product_of_q_along_their_path(
    page: Page, proposer: str, temperature: float, penalty: float, tree: float | None
) -> None:
    """Against the record. Catches: another product, another order, or one that was sent below one that was not."""
    if tree is not None and proposer == "medusa":
        pytest.skip("its tree is fixed")
    options = "{}" if tree is None else json.dumps({"tree_temperature": tree})
    trace = recorded(
        proposer, options, max_new_tokens=12, temperature=temperature, repetition_penalty=penalty
    )
    stage(page, trace)
    for at, row in enumerate(json.loads(trace.to_json())["rounds"]):
        nodes = row["nodes"]
        q = nodes.get("tree_q") or (nodes["model_q"] if penalty == 1.0 else nodes["penalised_q"])
        product: list[float] = []
        if q is None:  # above temperature 0 the record does not have what penalties left of q
            show_moment(page, at + 1, 0)
            expect(page.locator(".window-line")).to_have_count(1)
            expect(page.locator(".path-row")).to_have_count(0)
            continue
        for node, parent in enumerate(nodes["parent"]):
            product.append(q[node] * (product[parent] if parent >= 0 else 1.0))
        show_moment(page, at + 1, 0)
        shown = page.evaluate("""() => [...shadow.querySelectorAll(".path-row")].map(row => ({
            node: Number(row.dataset.node), sent: !row.classList.contains("unsent"),
            number: row.querySelector(".path-number").textContent,
            path: [...row.querySelectorAll(".phrase-token")].map(token => Number(token.dataset.node)) }))""")
        assert sorted(each["node"] for each in shown) == list(range(len(product)))
        if shown:
            said = page.locator(".paths").get_attribute("aria-label") or ""
            head = models().heads[proposer]
            measured = getattr(head, "tree_temperature", 1.0) if temperature == 0.0 else 1.0
            at = tree or measured
            assert (f"at temperature {at}" in said) == (at != 1.0) == (nodes.get("tree_q") is not None)
        chances = [product[each["node"]] for each in shown]
        assert chances == sorted(chances, reverse=True)
        for each, chance in zip(shown, chances, strict=True):
            path, node = [], each["node"]
            while node >= 0:
                path.insert(0, node)
                node = nodes["parent"][node]
            assert each["path"] == path
            assert each["sent"] == (nodes["verdict"][each["node"]] != "pruned")
            assert abs(float(each["number"].removeprefix("< ")) - chance) <= 1.1e-3
        if proposer != "medusa":
            assert [each["sent"] for each in shown] == sorted((each["sent"] for each in shown), reverse=True)


def test_how_it_guessed_is_drawn_where_it_is_seen(page: Page, server: Server) -> None:
    """Catches: hundreds of elements with every step behind another tab, and an empty sheet of paper."""
    server.files["/traces/spec.json"] = recorded("eagle", max_new_tokens=12, temperature=0.0).to_json()
    open_player(page, cursor={"round": 1, "node": None})
    paths, tab = page.locator(".path-row"), page.get_by_role("button", name="How it guessed")
    expect(paths).to_have_count(0)
    tab.click()
    expect(paths.first).to_be_visible()
    page.locator(".panel-tab").first.click()
    expect(paths).to_have_count(0)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert paths.count() > 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(paths).to_have_count(0)


def test_a_draft_s_own_tokens_are_shown(page: Page) -> None:
    """The ends count characters as Python does. Catches: pieces cut inside a character of two UTF-16 units."""
    record = json.loads(spec_trace().to_json())
    record["header"]["settings"].update(proposer="text-draft", options={})
    for row in record["rounds"]:
        row["note"] = {"draft_ids": [7, 8, 9], "draft_text": "a 🦊 cat", "draft_ends": [1, 3, 7]}
    stage(page, record)
    show_moment(page, 1, 0)
    assert "‘a’ ‘ 🦊’ ‘ cat’" in page.locator(".window .window-line").inner_text()


def test_nothing_is_shown_for_proposers_without_a_view_of_their_own(page: Page) -> None:
    stage(page, spec_trace())
    show_moment(page, 1, ALL)
    assert page.locator(".window").is_hidden()


HOSTILE: list[Any] = [
    {"match_start": "x", "match_length": [], "copied": {}},
    {"match_start": 1, "match_length": 1e9, "copied": -3, "matches": "many"},
    {"window": [[1, "x"], 7], "guesses": "all", "generated": 3, "newest": [[]], "harvested": [[None]]},
    {"window": [[1]] * 2000, "pool": -1},
    {"window": [[1, 2], [3, 4]], "guesses": [[1], ["<img src=x>"]], "generated": ["a"], "newest": [[1]]},
    {"match_length": {}, "matches": "<img src=x>", "earlier": -1, "known": [], "renewed": "x"},
    {"draft_text": "<img src=x>", "draft_ends": [4, "x", 1e9, -2, None]},
    {"heads": "<img src=x>", "levels": [], "exit_layer": {}, "ahead": "all"},
    {"draft_read": "<img src=x>", "masks": -4},
    None,
]


@pytest.mark.parametrize(
    "proposer",
    ["lookahead", "prompt-lookup", "suffix", "medusa", "draft-model", "text-draft", "parallel-draft"],
)
def test_hostile_notes_break_nothing(page: Page, proposer: str) -> None:
    for note in HOSTILE:
        record = json.loads(spec_trace().to_json())
        record["header"]["settings"].update(proposer=proposer, overlap=True)
        for row in record["rounds"]:
            row.update(note=note, riders="x", ahead_s="long", ahead_passes=-1)
        stage(page, record)
        for event in (0, 1, ALL):
            assert "window" in show_moment(page, 2, event)
        assert page.evaluate("shadow.querySelectorAll('.player img').length") == 0
        assert page.locator(".window").inner_text() != ""
