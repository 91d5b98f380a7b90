"""The odds: areas, needles and words against the numbers of the record, at the moment when each is known."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import specdec_core as sd
from specdec_core.record.schema import Candidates, Position, Round
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_measure.exact.distribution import expected_accepted

from .conftest import Server, open_player
from .samples import Plan, spec_trace
from .views import ALL, look, phases, recorded, show_moment, stage

pytestmark = pytest.mark.browser

TREE = '{"width": 3, "depth": 2, "nodes": 12, "beam": 3}'
Point = tuple[float, float]

CHART = """() => {
  const read = cell => cell === null || cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  const rows = [...shadow.querySelectorAll(".chart .bar-body .bar-row")].map(row => ({
    token: row.dataset.token, height: row.getBoundingClientRect().height,
    p: read(row.querySelector("[data-name=p]")), q: read(row.querySelector("[data-name=q]")),
  }));
  const areas = {};
  const all = selector => [...shadow.querySelectorAll(selector)];
  for (const area of all(".plane .area")) areas[area.dataset.area] = getComputedStyle(area).clipPath;
  const parts = Object.fromEntries(all(".part-list li").map(part => [part.dataset.part, Number(part.dataset.value)]));
  const text = shadow.querySelector(".odds").innerText;
  const tab = shadow.querySelector(".tab[aria-pressed=true]")?.innerText;
  return { rows, areas, parts, text, tab };
}"""


def _widths(polygon: str, rows: int) -> list[tuple[float, float]]:
    """Where each row enters and leaves a polygon, as shares of the width: its upright edges across the row's middle."""
    points = [(float(x), float(y)) for x, y in re.findall(r"([-\d.e]+)% ([-\d.e]+)%", polygon)]
    assert points, polygon
    found = []
    for row in range(rows):
        middle = 100 * (row + 0.5) / rows
        edges = zip(points, [*points[1:], points[0]], strict=True)
        at = sorted(
            x1 / 100 for (x1, y1), (x2, y2) in edges if x1 == x2 and min(y1, y2) < middle < max(y1, y2)
        )
        assert len(at) == 2
        found.append((at[0], at[1]))
    return found


def _known(head: Candidates) -> dict[int, float]:
    return dict(zip(head.id, head.prob, strict=True))


def _places(trace: sd.Trace) -> list[tuple[int, Round, Position, int]]:
    """Every judged node whose place is in the record: (stop, round, position, node)."""
    return [
        (row.index + 1, row, position, node)
        for row in trace.rounds
        for node, verdict in enumerate(row.nodes.verdict)
        for position in row.positions
        if verdict in ("accepted", "rejected") and position.at == row.nodes.parent[node]
    ]


BUTTON = "() => [...shadow.querySelectorAll('.odds button')].find(button => {}.test(button.innerText))"
ALL_ROWS = BUTTON.format("/all/")
JUDGED = BUTTON.format("/What (was|will be) (compared|used)/")
HINT = "() => shadow.querySelector('.odds .hint').innerText"


def _looked(
    page: Page, trace: sd.Trace, what: str = CHART, press: str | None = None
) -> Iterator[tuple[tuple[int, Round, Position, int], Any]]:
    """Each of `_places` and what is seen there."""
    places = _places(trace)
    return zip(
        places, look(page, [(stop, ALL, node) for stop, _, _, node in places], what, press), strict=True
    )


BELOW = """async (bounds) => {
  const { below } = await import("/player/text/signs.js");
  return bounds.map(below);
}"""


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_k": 6, "seed": 5}])
def test_the_areas_are_the_numbers_of_the_record(page: Page, options: dict[str, Any], expanded: bool) -> None:
    """Every judged token of a sampled chain. Catches: an area with the wrong height, a tail that is invented, mass that
    is lost where one side's head does not name a token, a bound rounded to less than itself, and a
    total that is not the recorded Σ min(p, q)."""
    trace = recorded("draft-model", draft_length=3, **options)
    stage(page, trace)
    assert page.evaluate(BELOW, [0.0, 0.015, 0.0152, 1.0]) == ["< 0.001", "< 0.016", "< 0.016", "—"]
    bounded = 0
    for (_, row, position, node), drawn in _looked(page, trace, press=ALL_ROWS if expanded else None):
        assert position.q is not None and position.overlap is not None
        nodes = row.nodes
        assert nodes.p is not None and nodes.q is not None
        p, q = _known(position.p), _known(position.q)
        own_p, own_q = nodes.p[node], nodes.q[node]
        assert own_p is not None and own_q is not None
        p.setdefault(nodes.token[node], own_p)
        q.setdefault(nodes.token[node], own_q)
        rows = drawn["rows"]
        named = [int(each["token"]) for each in rows if each["token"] != "rest"]
        if expanded:
            assert set(named) >= set(position.p.id) | set(position.q.id)
        missing_p = 0.0 if position.p.tail == 0.0 else None
        missing_q = 0.0 if position.q.tail == 0.0 else None
        expected: list[tuple[float | None, float | None]] = [
            (p.get(token, missing_p), q.get(token, missing_q)) for token in named
        ]
        if rows[-1]["token"] == "rest":
            expected.append(
                (1 - sum(one or 0.0 for one, _ in expected), 1 - sum(other or 0.0 for _, other in expected))
            )
        for each, (one, other) in zip(rows, expected, strict=True):
            assert each["p"] == (None if one is None else pytest.approx(one, abs=2e-6))
            assert each["q"] == (None if other is None else pytest.approx(other, abs=2e-6))
        assert len({each["height"] for each in rows}) == 1
        top = 1
        empty = [(0.0, 0.0)] * len(rows)
        areas = {
            name: [(x1 * top, x2 * top) for x1, x2 in _widths(drawn["areas"][name], len(rows))]
            if name in drawn["areas"]
            else empty
            for name in ("shared", "over", "under")
        }
        size = {name: [end - begin for begin, end in bands] for name, bands in areas.items()}
        assert sum(size["shared"]) == pytest.approx(position.overlap, abs=1e-3)
        assert sum(size["over"]) == pytest.approx(1 - position.overlap, abs=1e-3)
        assert sum(size["under"]) == pytest.approx(1 - position.overlap, abs=1e-3)
        for at, (token, (one, other)) in enumerate(zip([*named, None][: len(rows)], expected, strict=True)):
            shared, over, under = (size[name][at] for name in ("shared", "over", "under"))
            if one is not None and other is not None and token is not None:
                assert shared == pytest.approx(min(one, other), abs=1e-5)
                assert over == pytest.approx(max(0.0, other - one), abs=1e-5)
                assert under == pytest.approx(max(0.0, one - other), abs=1e-5)
            elif token is not None:
                head = position.p if one is None else position.q
                bounded += 1
                assert shared <= min(*head.prob, head.tail) + 1e-5
            else:
                continue
            assert one is None or shared + under == pytest.approx(one, abs=1e-5)
            assert other is None or shared + over == pytest.approx(other, abs=1e-5)
        assert drawn["parts"]["shared"] == pytest.approx(position.overlap, abs=1e-6)
        assert drawn["parts"]["over"] == pytest.approx(1 - position.overlap, abs=1e-6)
    if "top_k" not in options and expanded:
        assert bounded > 20, "no token was named on one side only, so the bounds were never drawn"


MARKED = "rows => rows.map(row => [row.dataset.token, row.querySelector('.bar-mark')?.textContent ?? ''])"


def test_fixed_guesses_take_their_own_share_of_p(page: Page) -> None:
    """Medusa above temperature 0: q is 1 on each guess, and each passes with its p. Catches: guesses among "all others"
    that are counted as lost, a threshold said to be p/q, a q that is shown only where one guess stands alone, and a
    sibling that loses its mark while another is looked at."""
    trace, beside = recorded("medusa"), 0
    stage(page, trace)
    for (_, row, position, _), drawn in _looked(page, trace):
        assert position.overlap is not None and row.nodes.p is not None
        siblings = {
            row.nodes.token[other]: row.nodes.p[other] or 0.0
            for other, parent in enumerate(row.nodes.parent)
            if parent == position.at
        }
        assert sum(siblings.values()) == pytest.approx(position.overlap, abs=1e-5)
        assert "were fixed, not drawn" in drawn["text"] or "was fixed, not drawn" in drawn["text"]
        named = [each for each in drawn["rows"] if each["token"] != "rest"]
        assert all(each["q"] == (int(each["token"]) in siblings) for each in named), "one or several"
        assert all((each["q"] or 0.0) <= 1.0 for each in drawn["rows"])
        marks = dict(page.locator(".odds .bar-row[data-token]").evaluate_all(MARKED))
        for other, parent in enumerate(row.nodes.parent):
            mark = {"accepted": "✓", "rejected": "✗"}.get(row.nodes.verdict[other])
            if parent == position.at and mark and str(row.nodes.token[other]) in marks:
                assert marks[str(row.nodes.token[other])] == mark
                beside += 1
        top = max(max(each["p"] or 0.0, each["q"] or 0.0) for each in drawn["rows"])
        if len(siblings) > 1:
            assert "over" not in drawn["areas"]
            bands = _widths(drawn["areas"]["shared"], len(drawn["rows"]))
            assert sum(end - begin for begin, end in bands) * top == pytest.approx(position.overlap, abs=1e-3)
            for each, (_, end) in zip(drawn["rows"], bands, strict=True):
                if each["token"] != "rest":
                    assert end * top == pytest.approx(siblings.get(int(each["token"]), 0.0), abs=1e-5)
    assert beside > 10


FIXED = json.dumps({**json.loads(TREE), "draw": "likeliest"})
CHANCE = re.compile(
    r"(?:=|(?=[<>])) *([<> ]*[\d.]+): how likely (?:one of them|it) is to be accepted\."
    r"|(?:=|(?=[<>])) *([<> ]*[\d.]+): how likely (?:the first|a) guess here is to be accepted\."
    r"|1 − Π\(1 − threshold\) = ([<> ]*[\d.]+)\."
    r"|It is accepted with the probability of its threshold, ([<> ]*[\d.]+)\."
)
DECIDES = {  # what the panel says where it names no chance
    "token-matching": "Token matching does not look at q",
    "block": "judges the chain as a whole",
    "typical": "No coin decides: of the guesses whose p is above a threshold, the longest path is kept.",
    "fly": "The rule “fly” has its own threshold",
    "confidence": "No coin decides: guesses stay while a model is confident enough in them.",
}


@cache
def _passing(rule: str, masses: tuple[float, ...]) -> float:
    """How likely one of several fixed guesses at a place passes: every coin gone through; all other tokens are one."""
    probs = [*masses, max(0.0, 1.0 - sum(masses))]
    order = [2.0**-place for place in range(len(masses))] + [0.0]
    judge = RULES[rule](RULES[rule].read_options(Settings(rule=rule)))
    return expected_accepted(judge, [-1] * len(masses), lambda _: probs, lambda _: order, "fixed")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("proposer", ["prompt-lookup", "branching"])
def test_how_likely_fixed_guesses_pass_is_exact_or_not_said(page: Page, proposer: str, rule: str) -> None:
    """Every rule, every judged place: a chance that is named is the one that enumeration finds. Catches: Σ p said as
    the chance under rules that judge otherwise, and a chance where some threshold is not in the record."""
    if RULES[rule].unsuited("fixed tree" if proposer == "branching" else "chain"):
        return
    checked = several = 0
    for temperature in [0.0] if rule == "exact-match" else [0.0, 1.0]:
        trace = recorded(
            proposer,
            FIXED if proposer == "branching" else "{}",
            rule=rule,
            temperature=temperature,
            max_new_tokens=40,
        )
        stage(page, trace)
        for (_, row, position, node), drawn in _looked(page, trace, press=JUDGED):
            nodes = row.nodes
            assert nodes.p is not None and nodes.threshold is not None
            rivals = [
                other
                for other, parent in enumerate(nodes.parent)
                if parent == position.at and nodes.verdict[other] not in ("pruned", "discarded")
            ]
            said = drawn["text"]
            chances = ["".join(found.groups(default="")) for found in CHANCE.finditer(said)]
            assert len(chances) == len(
                re.findall(
                    "how likely [^.:;]* to be accepted|It is accepted with the prob", said, re.IGNORECASE
                )
            ), said
            masses = tuple(nodes.p[other] or 0.0 for other in rivals)
            for chance in chances:
                exact = _passing(rule, masses)
                bound = {"<": exact < 0.001, ">": exact > 0.999}.get(chance[0])
                assert bound if bound is not None else float(chance) == pytest.approx(exact, abs=6e-4), said
                checked += 1
                several += len(rivals) > 1
            if rule in DECIDES:
                assert not chances
                assert temperature == 0.0 or DECIDES[rule] in said, said
            elif not chances and temperature > 0.0:
                assert rule in ("ensemble", "kseq")
                assert None in [nodes.threshold[other] for other in rivals]
            if rule == "token-matching" and temperature > 0.0 and node != rivals[0]:
                left = 1.0 - sum(nodes.p[other] or 0.0 for other in rivals if other < node)
                assert nodes.threshold[node] == pytest.approx((nodes.p[node] or 0.0) / left, abs=1e-4)
                assert "left of p" in said and "The threshold is p" not in said
            assert "of the guesses: one is" not in said or rule == "speculative-sampling"
    if rule not in DECIDES and rule != "exact-match":  # at temperature 0 nothing is left to chance
        assert checked > 3 and (several > 1 or proposer == "prompt-lookup"), (checked, several)


def test_at_temperature_zero_a_lossy_rule_is_not_described_as_a_comparison(page: Page) -> None:
    """Under `ensemble` a wrong guess passes with 1 − w. Catches: "compares two tokens", as lossless rules do."""
    trace = recorded("draft-model", rule="ensemble", temperature=0.0)
    stage(page, trace)
    page.evaluate("lane.lossy = true")
    met = set()
    for (_, row, _, node), drawn in _looked(page, trace):
        said = drawn["text"]
        assert "compares two tokens" not in said and "a mixture of p and q" in said
        assert row.nodes.threshold is not None
        met.add(row.nodes.threshold[node])
    assert met == {0.5, 1.0}


def _hints(page: Page, trace: sd.Trace) -> dict[tuple[int, int], str]:
    """What is said of each guess that was never judged, by its round and node."""
    nodes = [
        (row.index, node)
        for row in trace.rounds
        for node, verdict in enumerate(row.nodes.verdict)
        if verdict == "unreached"
    ]
    return dict(zip(nodes, look(page, [(at + 1, ALL, node) for at, node in nodes], HINT), strict=True))


@pytest.mark.parametrize(
    ("proposer", "options", "changes"),
    [
        ("draft-model", "{}", {}),
        ("branching", "{}", {"temperature": 0.0}),
        ("branching", FIXED, {"rule": "kseq"}),
        ("branching", FIXED, {"rule": "confidence"}),
        ("medusa", "{}", {}),
    ],
)
def test_an_unreached_guess_says_what_kept_it_from_being_judged(
    page: Page, proposer: str, options: str, changes: dict[str, Any]
) -> None:
    """Down from the root, the first guess that was not accepted is named. Catches: a rejection named where a rival was
    accepted, and no reason at a place whose distributions are shown."""
    trace = recorded(proposer, options, **changes)
    stage(page, trace)
    found = set()
    hints = _hints(page, trace)
    proposed = page.evaluate("lane.rounds.map(round => round.proposals.map(item => item.text))")
    for row in trace.rounds:
        parents, verdicts = row.nodes.parent, row.nodes.verdict
        for node, verdict in enumerate(verdicts):
            if verdict != "unreached":
                continue
            way = [node]
            while parents[way[0]] >= 0:
                way.insert(0, parents[way[0]])
            stopped = next(step for step in way if verdicts[step] != "accepted")
            taken = [
                other
                for other in range(stopped)
                if parents[other] == parents[stopped] and verdicts[other] == "accepted"
            ]
            if verdicts[stopped] == "rejected":
                why, of = "it follows {}, which was rejected.", [stopped]
            elif taken and stopped == node:
                why, of = "{} was accepted in its place.", taken
            elif taken:
                why, of = "it follows {}, in whose place {} was accepted.", [stopped, *taken]
            else:
                assert "cut" in verdicts
                why, of = "the text ended before it.", []
            names = [proposed[row.index][each] for each in of]
            said = hints[row.index, node]
            pieces = [re.escape(piece) for piece in why.split("{}")]
            parts = re.fullmatch("It was never judged(?:: |, and )" + "‘(.*)’".join(pieces), said)
            assert parts, (said, why)
            for part, name in zip(parts.groups(), names, strict=True):
                assert part.strip("\xa0\u200a␣ ") == name.strip(" ") or "\n" in name
            found.add(why)
    assert len(found) >= (1 if proposer == "draft-model" else 3), found


def test_an_unreached_guess_of_the_other_rules_says_why(page: Page) -> None:
    """Typical acceptance keeps one path of those above its bar, computed here; block verification tossed every coin;
    an ended text. Catches: "never judged" of what had a verdict of its own."""
    trace = recorded("branching", FIXED, rule="typical")
    stage(page, trace)
    seen = set()
    hints = _hints(page, trace)
    for row in trace.rounds:
        nodes = row.nodes
        assert nodes.p is not None and nodes.entropy is not None
        clears = []
        for node, parent in enumerate(nodes.parent):
            p, entropy = nodes.p[node], nodes.entropy[node]
            above = parent < 0 or clears[parent]
            clears.append(
                above and p is not None and entropy is not None and p > min(0.09, 0.3 * math.exp(-entropy))
            )
        for node, verdict in enumerate(nodes.verdict):
            if verdict == "unreached":
                said = hints[row.index, node]
                words = (
                    "It is above the threshold, but another path"
                    if clears[node]
                    else "It follows a guess that was not kept."
                )
                assert said.startswith(words)
                seen.add(clears[node])
    assert seen == {True, False}
    trace = recorded("draft-model", rule="block", draft_length=5)
    stage(page, trace)
    hints = _hints(page, trace)
    for row in trace.rounds:
        for node, verdict in enumerate(row.nodes.verdict):
            if verdict == "unreached":
                assert "so did every later one" in hints[row.index, node]
                assert row.nodes.coin is not None and row.nodes.threshold is not None
                met = zip(row.nodes.coin[node:], row.nodes.threshold[node:], strict=True)
                assert all(coin is not None and bar is not None and coin >= bar for coin, bar in met)
    record = json.loads(spec_trace().to_json())
    nodes = record["rounds"][0]["nodes"]
    nodes.update(parent=[-1, -1, -1], depth=[1, 1, 1], verdict=["cut", "unreached", "unreached"])
    record["rounds"][0]["positions"] = record["rounds"][0]["positions"][1:]
    stage(page, record)
    show_moment(page, 1, ALL, 2)
    assert page.locator(".odds .hint").inner_text() == "It was never judged, and the text ended before it."


NEEDLE = """selector => {
  const box = element => {
    if (!element) return null;
    const { left, right, width } = element.getBoundingClientRect();
    return { left, right, width, token: element.dataset.token };
  };
  const within = (axis, name) => box(axis.querySelector(name));
  return [...shadow.querySelectorAll(selector)].map(axis => ({
    axis: box(axis), needle: within(axis, ".needle"), pass: within(axis, ".pass"), drawn: within(axis, ".drawn"),
    sum: [...axis.querySelectorAll(".segment")].reduce((sum, each) => sum + parseFloat(each.style.inlineSize), 0),
  }));
}"""


@pytest.mark.parametrize(
    ("proposer", "options", "rule"),
    [
        ("draft-model", "{}", "speculative-sampling"),
        ("branching", TREE, "speculative-sampling"),
        ("draft-model", "{}", "token-matching"),
        ("draft-model", "{}", "ensemble"),
    ],
)
def test_the_needle_lands_where_the_verdict_is(page: Page, proposer: str, options: str, rule: str) -> None:
    """Every judged node of four records. Catches: a needle on the wrong side of its threshold, or not at u."""
    trace = recorded(proposer, options, rule=rule)
    stage(page, trace)
    seen = set()
    for (_, row, _, node), (found,) in _looked(page, trace, f"() => ({NEEDLE})('.coin .axis')"):
        assert row.nodes.coin is not None and row.nodes.threshold is not None
        u, threshold = row.nodes.coin[node], row.nodes.threshold[node]
        assert u is not None and threshold is not None
        centre = (found["needle"]["left"] + found["needle"]["right"]) / 2
        inner = found["axis"]["width"] - 2
        assert (centre - found["axis"]["left"] - 1) / inner == pytest.approx(u, abs=0.01)
        assert found["pass"]["width"] / inner == pytest.approx(threshold, abs=0.01)
        if abs(u - threshold) * inner > 1:
            assert (centre < found["pass"]["right"]) == (row.nodes.verdict[node] == "accepted")
        seen.add(row.nodes.verdict[node])
    assert seen == {"accepted", "rejected"}


def test_a_block_shows_every_coin_and_keeps_up_to_the_last_that_passes(page: Page) -> None:
    """Block verification. Catches: coins of tokens after the end left out, though each had its say."""
    trace = recorded("draft-model", rule="block", draft_length=5)
    stage(page, trace)
    for row in trace.rounds:
        if len(row.nodes.token) < 2:
            continue
        nodes = range(len(row.nodes.token))
        coins = f"() => ({NEEDLE})('.coins .axis')"
        for found in look(page, [(row.index + 1, ALL, node) for node in nodes], coins):
            assert len(found) == len(row.nodes.token)
            passes = [
                (each["needle"]["left"] + each["needle"]["right"]) / 2 < each["pass"]["right"]
                for each in found
            ]
            kept = max((at + 1 for at, passed in enumerate(passes) if passed), default=0)
            assert row.nodes.verdict.count("accepted") == kept
    assert [phase for phase, _ in phases(page, 1)] == ["proposed", "verified", "judged", "committed"]


def test_the_residual_and_the_number_that_drew_from_it(page: Page) -> None:
    """Corrected and bonus tokens of a chain and a tree. Catches: bars that are not the recorded distribution, a needle
    outside of the token that was drawn, a cumulative bar that is not whole, and a drawn token that is nowhere."""
    sources, unnamed = set(), 0
    for trace in (recorded("draft-model"), recorded("branching", TREE)):
        stage(page, trace)
        for row in trace.rounds:
            last = row.positions[-1]
            if last.source in ("accepted", "plain"):
                continue
            show_moment(page, row.index + 1, ALL, -1)
            recorded_distribution = last.residual or last.p
            if last.residual:
                values = dict(zip(recorded_distribution.id, recorded_distribution.prob, strict=True))
                bars = page.locator(".residual .bar-row").evaluate_all(
                    """rows => rows.map(row => [row.dataset.token,
                      Number(row.querySelector("[data-name]").dataset.value),
                      row.querySelector(".line").getBoundingClientRect().width,
                      row.querySelector(".plot").getBoundingClientRect().width])"""
                )
                top = max(value for token, value, _, _ in bars if token != "rest")
                for token, value, width, whole in bars:
                    if token != "rest":
                        assert value == pytest.approx(values[int(token)], abs=1e-9)
                        assert width == pytest.approx(max(1, (whole - 1) * value / top), abs=1.5)
                assert sum(value for _, value, _, _ in bars) == pytest.approx(1, abs=1e-5)
            if last.token in recorded_distribution.id:
                (found,) = page.evaluate(NEEDLE, ".cumulative")
                assert last.draw is not None
                inner = found["axis"]["width"] - 2
                centre = (found["needle"]["left"] + found["needle"]["right"]) / 2
                assert (centre - found["axis"]["left"] - 1) / inner == pytest.approx(last.draw, abs=0.01)
                assert found["drawn"]["token"] == str(last.token)
                assert found["drawn"]["left"] - 1 <= centre <= found["drawn"]["right"] + 1
                assert found["sum"] == pytest.approx(100, abs=0.01)
                sources.add(last.source)
            named = last.token in recorded_distribution.id
            assert page.locator(".cumulative").count() == named
            said = page.locator(".odds-side").inner_text()
            assert ("The drawn token is among all others there" in said) is not named
            unnamed += not named
    assert sources == {"corrected", "bonus"} and unnamed


def test_a_later_sibling_names_its_own_distribution(page: Page) -> None:
    """Drawn without replacement its q is that of the first guess without the elder ones, scaled to 1, as computed
    here; drawn with replacement it is the same q. Catches: q of the first guess said of all."""
    for draw, words in (
        ("distinct", "its own distribution is q without the earlier siblings"),
        ("independent", "from the same q"),
    ):
        options = json.dumps({**json.loads(TREE), "draw": draw})
        trace, checked = recorded("branching", options), 0
        stage(page, trace)
        for (_, row, position, node), drawn in _looked(page, trace):
            nodes = row.nodes
            elder = [other for other in range(node) if nodes.parent[other] == nodes.parent[node]]
            assert nodes.q is not None and position.q is not None
            q = _known(position.q)
            if not elder or not {nodes.token[each] for each in [*elder, node]} <= set(q):
                continue
            text = drawn["text"]
            assert words in text and "The areas are those of the first guess" in text
            own = nodes.q[node]
            assert own is not None
            left = 1 - sum(q[nodes.token[each]] for each in elder) if draw == "distinct" else 1.0
            assert own == pytest.approx(q[nodes.token[node]] / left, rel=1e-3)
            if draw == "distinct":
                assert f"q = {own:.3f}" in text
            checked += 1
        assert checked > 3


def test_at_temperature_zero_one_sentence_says_what_is_compared(page: Page) -> None:
    """Catches: areas of one-hot vectors as the first thing a student sees, and the models' own p and q mixed
    up, and a coin that decides nothing."""
    trace = recorded("draft-model", temperature=0.0)
    stage(page, trace)
    decided = 0
    for (_, _, position, _), drawn in _looked(page, trace):
        assert "accepted only if it is the target's first choice" in drawn["text"]
        if "The decision" in drawn["text"]:  # the guess was judged: no coin, but the two tokens
            name = trace.texts[str(position.p.id[0])].strip()
            assert re.search(rf"target's first choice\n+.*{re.escape(name)}", drawn["text"])
            assert "The coin" not in drawn["text"] and "nothing is left to chance" in drawn["text"]
            decided += 1
        assert drawn["tab"] == "How sure the models were"
        assert position.model_q is not None
        own = {each["token"]: (each["p"], each["q"]) for each in drawn["rows"]}
        for token, value in zip(position.model_p.id[:4], position.model_p.prob, strict=False):
            assert own[str(token)][0] == pytest.approx(value)
        for token, value in zip(position.model_q.id[:4], position.model_q.prob, strict=False):
            assert own[str(token)][1] == pytest.approx(value)
        assert "shared" not in drawn["areas"] and drawn["parts"] == {}
    assert decided > 3


def test_the_models_own_probabilities_are_not_said_to_decide_above_temperature_zero(page: Page) -> None:
    """Catches: "What p and q share is accepted" over a p and q whose ratio is not the threshold beside them."""
    trace = recorded("draft-model", temperature=0.7, top_k=6, seed=5)
    stage(page, trace)
    own = BUTTON.format("/How sure the models were/")
    for _, drawn in list(_looked(page, trace, press=own))[:6]:
        assert drawn["tab"] == "How sure the models were"
        assert "What the rule compares is under “What was compared”." in drawn["text"]
        assert "is accepted; where" not in drawn["text"]
    stage(page, recorded("draft-model", temperature=0.0))  # each kind of temperature has its own usual view
    stage(page, trace)
    for _, drawn in list(_looked(page, trace))[:2]:
        assert "What p and q share is accepted" in drawn["text"]


def test_a_later_fixed_guess_is_told_its_own_threshold_and_rest(page: Page) -> None:
    """Branching with its likeliest guesses, above temperature 0. Catches: min(1, r/q) beside the draft's q, which does
    not give the threshold, and a rest of p that is said to be p − q."""
    trace = recorded("branching", FIXED, temperature=1.0, max_new_tokens=40)
    stage(page, trace)
    later = rests = 0
    for (stop, row, position, node), drawn in _looked(page, trace, press=JUDGED):
        nodes = row.nodes
        assert nodes.p is not None and nodes.threshold is not None
        gone = [
            nodes.p[other] or 0.0
            for other in range(node)
            if nodes.parent[other] == position.at and nodes.verdict[other] == "rejected"
        ]
        own = nodes.p[node] if node >= 0 else None
        if gone and own is not None and nodes.threshold[node] is not None:
            assert nodes.threshold[node] == pytest.approx(own / (1 - sum(gone)), abs=1e-5)
            assert "share of what is left of p" in drawn["text"] and "r/q" not in drawn["text"]
            later += 1
        if "After a rejection" in drawn["text"] or " rejections:" in drawn["text"]:
            assert "p without the rejected token" in drawn["text"] and "p − q" not in drawn["text"]
            rests += 1
        if node >= 0 and position.at < 0:
            show_moment(page, stop, 0, node)
            expect(page.locator(".odds .compares")).to_contain_text("whatever the proposer's own q")
    assert later and rests


def test_a_guess_without_a_model_has_no_q_before_the_pass(page: Page) -> None:
    """Catches: "q is the draft's probability" of a guess that was copied, and a view named that is not there."""
    trace = recorded("prompt-lookup", temperature=0.0, max_new_tokens=40)
    stage(page, trace)
    stop = next(at for at, row in enumerate(trace.rounds, start=1) if row.nodes.token)
    show_moment(page, stop, 0, 0)
    expect(page.locator(".odds .compares")).to_contain_text("came without a model, so it has no q")
    expect(page.locator(".odds")).not_to_contain_text("other view")
    expect(page.locator(".odds .tab")).to_have_count(0)


def _older(trace: sd.Trace) -> sd.Trace:
    """The record as versions that did not keep the probabilities after penalties wrote it."""
    trace = copy.deepcopy(trace)
    for row in trace.rounds:
        row.nodes.penalised_p = row.nodes.penalised_q = None
        for position in row.positions:
            position.penalised_p = position.penalised_q = None
    return trace


def test_with_a_penalty_the_chart_shows_what_was_compared(page: Page) -> None:
    """Catches: bars in which the token that was written is not the longest, and a guess that was not the draft's
    first."""
    trace = recorded("draft-model", temperature=0.0, repetition_penalty=1.6, max_new_tokens=60)
    stage(page, trace)
    moved = 0
    for (_, row, position, node), drawn in _looked(page, trace):
        assert drawn["tab"] == "How sure the models were" and "before it" not in drawn["text"]
        rows = {each["token"]: (each["p"], each["q"]) for each in drawn["rows"] if each["token"] != "rest"}
        for side, head in enumerate((position.penalised_p, position.penalised_q)):
            if head is None:
                continue
            for token, value in zip(head.id[:4], head.prob, strict=False):
                assert rows[str(token)][side] == pytest.approx(value)
        first = max(rows, key=lambda token: rows[token][0] or 0.0)
        assert first == str(position.p.id[0])
        if node >= 0:
            guess, nodes = str(row.nodes.token[node]), row.nodes
            assert rows[guess][0] == pytest.approx(nodes.penalised_p[node], abs=1e-6)
            assert guess == max(rows, key=lambda token: rows[token][1] or 0.0), "the draft's own first"
        moved += position.p.id[0] != position.model_p.id[0]
    assert moved


def test_a_penalty_that_changes_what_is_written_is_said(page: Page) -> None:
    """Catches: “its most likely token” beside a chart of the model's own p, in which another one is more likely."""
    trace = _older(recorded("draft-model", temperature=0.0, repetition_penalty=1.6, max_new_tokens=60))
    stage(page, trace)
    places = [
        (row.index + 1, position)
        for row in trace.rounds
        for position in row.positions
        if position.source == "bonus" and position.p and position.model_p
    ]
    moved = [
        position.p.id[0] != position.model_p.id[0]
        for _, position in places
        if position.p and position.model_p
    ]
    assert any(moved)
    seen = look(page, [(stop, ALL, -1) for stop, _ in places], CHART)
    for other, drawn in zip(moved, seen, strict=True):
        assert ("here after the repetition penalty" in drawn["text"]) is other
        assert "At temperature 0 the target writes its most likely token" in drawn["text"]


def test_a_penalty_that_changes_what_is_accepted_is_said(page: Page) -> None:
    """Catches: a guess rejected for another “first choice” than the chart's, or with another rank than the chart shows,
    and “the chart shows p before it” beside a chart of what was compared."""
    trace = _older(recorded("draft-model", temperature=0.0, repetition_penalty=1.6, max_new_tokens=60))
    stage(page, trace)
    seen, ranks = set(), 0
    for ((_, row, position, node), own), (_, compared) in zip(
        _looked(page, trace), _looked(page, trace, press=JUDGED), strict=True
    ):
        if "accepted only if it is the target's first choice" not in own["text"]:
            continue
        first = position.p.id[0] != position.model_p.id[0]
        probs = dict(zip(position.model_p.id, position.model_p.prob, strict=True))
        mine, said = row.nodes.token[node], row.nodes.rank[node]
        above = sum(value > row.nodes.model_p[node] for value in probs.values())
        other = said != 1 + above if mine in probs else said <= above  # the chart shows so many above it
        for drawn in (own, compared):
            assert ("That is after the repetition penalty" in drawn["text"]) is (first or other)
        shown = "p and q" if position.model_q else "p"
        assert (f"the chart shows {shown} from before it" in own["text"]) is (first or other)
        assert "the chart shows" not in compared["text"]
        seen.add(first or other)
        ranks += other and not first
    assert seen == {True, False} and ranks


@pytest.mark.parametrize(("penalty", "older"), [(None, False), (1.6, True), (1.6, False)])
def test_before_the_target_has_run_q_is_said_to_be_without_the_penalty_if_it_is(
    page: Page, penalty: float | None, older: bool
) -> None:
    """Catches: a draft that seems to have passed over its own most likely token; a comparison told in the past."""
    trace = recorded("draft-model", temperature=0.0, repetition_penalty=penalty, max_new_tokens=60)
    stage(page, _older(trace) if older else trace)
    (own,), (compared,) = look(page, [(3, 0, 0)], CHART), look(page, [(3, 0, 0)], CHART, JUDGED)
    assert compared["tab"] == "What will be compared"
    for drawn in (own, compared):
        assert "The target has not run yet" in drawn["text"]
    assert ("before the repetition penalty" in own["text"]) is older
    assert "before the repetition penalty" not in compared["text"]


def test_a_pruned_guess_is_not_described_as_judged(page: Page) -> None:
    """Catches: "accepted only if …" and "q = 1 for a guess" of one that the target never saw."""
    trace = recorded("eagle", '{"depth": 3, "top_k": 2, "nodes": 4}', temperature=0.0, max_new_tokens=60)
    pruned = [
        (row.index + 1, ALL, node)
        for row in trace.rounds
        for node, verdict in enumerate(row.nodes.verdict)
        if verdict == "pruned" and row.nodes.parent[node] in {position.at for position in row.positions}
    ]
    assert len(pruned) > 3
    stage(page, trace)
    for drawn in (*look(page, pruned, CHART), *look(page, pruned, CHART, JUDGED)):
        assert "taken out of the tree before the check, as its whole path" in drawn["text"]
        assert "accepted only if" not in drawn["text"] and "and q = 1" not in drawn["text"]


def _another_future(record: dict[str, Any], at: int, event: int, judged: list[int]) -> dict[str, Any]:
    """The record with everything changed that is not known at moment `event` (0 proposed, 1 verified, …) of a round."""
    changed = copy.deepcopy(record)
    changed["rounds"] = changed["rounds"][: at + 1]
    row = changed["rounds"][at]
    nodes, size = row["nodes"], len(row["nodes"]["token"])
    if event == 0:
        for name in ("p", "model_p", "penalised_p", "entropy", "p_max"):
            nodes[name] = [0.123] * size
        nodes["rank"] = [7] * size
        if nodes["p_entropy"]:
            nodes["p_entropy"] = [0.5] * size
    for node in range(size):
        if node not in judged:
            nodes["coin"][node], nodes["threshold"][node] = 0.777, 0.666
            if nodes["verdict"][node] in ("accepted", "rejected", "unreached"):
                nodes["verdict"][node] = "unreached" if judged or nodes["parent"][node] >= 0 else "rejected"
    known = {-1} | {node for node in judged if nodes["verdict"][node] == "accepted"}
    row["positions"] = [position for position in row["positions"] if position["at"] in known]
    other = {"id": [5, 6], "prob": [0.5, 0.25], "tail": 0.25}
    for position in row["positions"]:
        position.update(token=5, source="corrected", residual=other, draw=0.99)
        if event == 0:
            position.update(p=other, model_p=other, penalised_p=other, overlap=0.111, entropy_p=1.0)
    row["committed"] = {"token": [5], "source": ["corrected"]}
    row["block_mass"] = None
    for name in ("draft_s", "verify_s", "judge_s", "commit_s"):
        row[name] = 1.0
    return changed


@pytest.mark.parametrize("proposer", ["draft-model", "branching"])
def test_another_future_gives_the_same_page(page: Page, proposer: str) -> None:
    """At every moment before the commit, the page is the same for a record that differs in all that comes later.
    Catches: any word, width or attribute that is given away before its moment."""
    trace = recorded(proposer, TREE if proposer == "branching" else "{}", draft_length=3, max_new_tokens=12)
    record = json.loads(trace.to_json())
    looked = 0
    for row in trace.rounds[:3]:
        stop = row.index + 1
        stage(page, record)
        moments = phases(page, stop)
        nodes = [None, *range(min(5, len(row.nodes.token)))]
        seen = {
            (event, node): show_moment(page, stop, event, node)
            for event in range(len(moments) - 1)
            for node in nodes
        }
        for event in range(len(moments) - 1):
            judged = [node for _, node in moments[: event + 1] if node is not None]
            stage(page, _another_future(record, row.index, event, judged))
            assert phases(page, stop)[: event + 1] == moments[: event + 1]
            for node in nodes:
                assert show_moment(page, stop, event, node) == seen[event, node], (stop, moments[event], node)
                looked += 1
        stage(page, record)
        for event, (phase, node) in enumerate(moments):
            show_moment(page, stop, event)
            drawn = page.evaluate(CHART)
            died = phase == "committed" and "rejected" in row.nodes.verdict  # where the panel then looks
            assert page.locator(".odds .axis").count() == (phase == "judged" or died)
            assert (phase == "proposed") == all(each["p"] is None for each in drawn["rows"])
            assert page.locator(".residual, .cumulative").count() == 0 or phase == "committed"
            assert phase != "judged" or page.locator(f".chart .chosen[data-node='{node}']").count() == 1
    assert looked > 30


HOSTILE: list[dict[str, Any]] = [
    {"p": "much"},
    {"p": {"id": ["a", None, 3], "prob": [0.5, "x", 1e9], "tail": -4}, "q": {"id": 7}},
    {"q": None, "model_q": [], "overlap": "0.5"},
    {"p": {"id": [], "prob": [], "tail": 0}, "q": {"id": [], "prob": [], "tail": 0}},
    {"residual": {"id": [1], "prob": []}, "draw": 5, "token": "x"},
    {"at": "root"},
]


def test_hostile_numbers_break_nothing(page: Page) -> None:
    """Each position of a record replaced by odd values; the page's own check fails on any error thrown."""
    for hurt in HOSTILE:
        record = json.loads(spec_trace().to_json())
        for row in record["rounds"][:4]:
            for position in row["positions"]:
                position.update(hurt)
            row["nodes"].update(coin=["0.5"] * 3, threshold=[{}, None, 1e9], q=None, entropy=7, rank="first")
        stage(page, record)
        for row in record["rounds"][:4]:
            for node in range(-1, len(row["nodes"]["token"])):
                for event in (0, 1, ALL):
                    assert "odds" in show_moment(page, row["index"] + 1, event, node)
        assert page.locator(".odds").inner_text() != ""


def test_markup_in_tokens_stays_text(page: Page) -> None:
    name = "<img src=x onerror=alert(2)>"
    stage(page, spec_trace([Plan([(name, 0.02, 0.7, 0.4)], name)]))
    for event in (0, 1, 2, ALL):
        show_moment(page, 1, event, 0)
        assert page.evaluate("shadow.querySelectorAll('.player img, .player script').length") == 0
    assert name[:8] in page.locator(".odds").inner_text()


def test_a_number_and_its_threshold_never_look_alike(page: Page) -> None:
    """Catches: “0.547 is not below the threshold 0.547”."""
    said = "O.tossed(u, bar, u < bar ? 'accepted' : 'rejected')"
    told = f"([u, bar]) => import('/player/text/text_odds.js').then(({{ O }}) => {said})"
    assert page.evaluate(told, [0.5472, 0.5468]) == (
        "The random number u = 0.5472000 is not below the threshold 0.5468000: rejected."
    )
    assert (
        page.evaluate(told, [0.25, 0.75])
        == "The random number u = 0.250 is below the threshold 0.750: accepted."
    )


ALIKE = """rows => import("/player/odds/odds_chart.js").then(({ lookAlikes }) =>
  [...lookAlikes(rows.map(([id, text]) => ({ id, text })))])"""


def test_tokens_that_look_alike_are_told_apart_by_their_numbers(page: Page, server: Server) -> None:
    """Catches: two rows of the same dash, and a number beside words that everybody can tell apart."""
    rows = [[1, " –"], [2, " ‒"], [3, "–"], [4, "’"], [5, "'"], [6, " cat"], [7, "cat"], [None, None]]
    assert page.evaluate(ALIKE, rows) == [1, 2, 4, 5]
    record = json.loads(recorded("draft-model").to_json())
    first, second = record["rounds"][0]["positions"][0]["p"]["id"][:2]
    record["texts"].update({str(first): " –", str(second): " ‒"})
    server.files["/traces/spec.json"] = json.dumps(record)
    open_player(page, cursor={"round": 1, "step": None, "node": 0})
    assert set(page.locator(".odds .chart .bar-id").all_inner_texts()) == {f"#{first}", f"#{second}"}


def test_an_axis_has_round_numbers_up_to_its_end(page: Page) -> None:
    """Catches: an axis to 0.9996 without its 1, a number beyond the end, more numbers than there is room for."""
    ends = [0.0004, 0.003, 0.02, 0.3, 0.5, 0.75, 0.9, 0.9996, 1.0]
    for end in ends:
        found = page.evaluate("async end => (await import('/player/odds/areas.js')).ticks(end)", end)
        steps = {round(b - a, 6) for a, b in pairwise(found)}
        assert found[0] == 0 and len(steps) <= 1 and len(found) <= 5
        assert found[-1] <= end + 0.005 and (end - found[-1]) < min(steps, default=end + 1)
    assert page.evaluate("async () => (await import('/player/odds/areas.js')).ticks(0.9996)")[-1] == 1
