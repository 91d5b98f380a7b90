"""The comparison: its lanes and their address, the table's figures against the traces, and the page in process."""

from __future__ import annotations

import csv
import html as markup
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from streamlit.testing.v1 import AppTest

from app.choosing import presets
from app.compare import timing, whatif
from app.compare.table import frame, html, table, to_json
from app.compare.timing import speedups
from app.decoding.run import Request
from app.decoding.runs import Runs
from app.lanes import lane as core
from app.lanes.lane import Lane, decode, encode, from_address, to_address
from app.lanes.naming import labels, names
from app.metrics.differences import differences
from app.metrics.distance import distance
from app.metrics.numbers import measured_speedup
from app.records import visitor
from specdec_core import race
from specdec_core.engine.choice import check
from specdec_core.engine.events import Finished
from specdec_core.foundations.options import OptionField, fields
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_measure.analysis.memory import ledger
from specdec_measure.sweep.totals import csv_of

from .conftest import scripted_models
from .sheets import hides
from .test_page import MAIN, finish, param, press, words

pytestmark = pytest.mark.usefixtures("prompts")
SHARED = Settings(proposer="none")


def values(field: OptionField) -> Any:
    """Values that an option takes, its default apart."""
    if field.kind == "switch":
        found: Any = some.booleans()
    elif field.kind == "choice":
        found = some.sampled_from(field.choices)
    elif field.kind == "list":
        found = some.lists(some.integers(0, 9), min_size=1, max_size=4)
    elif field.kind == "text":
        found = some.text(max_size=30).map(str.strip)
    elif field.kind == "whole":
        found = some.integers(int(field.low or 0), int(field.high or 10_000))
    else:
        found = some.floats(
            field.low or 0.0, field.high or 1e6, exclude_min=field.low_open, exclude_max=field.high_open
        )
    return found.filter(lambda value: value != field.default)


def chosen(kind: Any) -> Any:
    """Some of an owner's options."""
    return some.fixed_dictionaries(
        {}, optional={name: values(field) for name, field in fields(kind.Options).items()}
    )


@some.composite
def any_lane(draw: Callable[[Any], Any]) -> Lane:
    proposer = draw(some.sampled_from([name for name in PROPOSERS if name != "none"]))
    rule, length = draw(some.sampled_from(list(RULES))), draw(some.sampled_from(list(LENGTH_POLICIES)))
    return Lane(
        proposer=proposer,
        gamma=draw(some.integers(1, 16)),
        rule=rule,
        length=length,
        overlap=draw(some.booleans()),
        memory=draw(some.floats(0, 1e6)),
        options=draw(chosen(PROPOSERS[proposer])),
        rule_options=draw(chosen(RULES[rule])),
        length_options=draw(chosen(LENGTH_POLICIES[length])),
    )


@given(any_lane())
def test_every_lane_survives_its_address(lane: Lane) -> None:
    """Every proposer, rule, policy and option of the core's tables, whatever a later one adds."""
    found, complaints = decode(encode(lane))
    assert complaints == []
    assert found == lane


@given(some.lists(any_lane(), min_size=1, max_size=core.MAX_LANES_COMPARED - 1))
def test_all_lanes_keep_their_order(lanes: list[Lane]) -> None:
    assert from_address([encode(lane) for lane in lanes]) == (lanes, [])
    assert to_address(lanes) == ([] if lanes == list(core.DEFAULT) else [encode(lane) for lane in lanes])


def test_a_lane_s_name_is_short_and_tells_it_from_every_other() -> None:
    """Catches: a name that the race cuts, although no other lane has its proposer; two lanes with one name."""
    eagle = Lane(proposer="eagle", options={"depth": 3, "nodes": 4})
    larger = replace(eagle, options={"depth": 3, "top_k": 3, "nodes": 16})
    assert names([eagle, Lane()]) == ("A · Plain decoding", "B · EAGLE head", "C · Draft model, γ = 4")
    assert names([eagle, larger])[1:] == ("B · EAGLE head", "C · EAGLE head, followed per level = 3")
    assert names([eagle, replace(eagle, options={"depth": 3}), larger])[1:] == (
        "B · EAGLE head, tokens sent = 4",
        "C · EAGLE head",
        "D · EAGLE head, followed per level = 3, tokens sent = 16",
    )
    assert names([eagle, eagle])[1:] == ("B · EAGLE head", "C · EAGLE head")


def test_a_lane_s_label_says_all_and_decides_alone_whether_a_run_is_another() -> None:
    """Catches: a library that keeps two EAGLE runs under one name; a kept run, without short names, taken for one with
    other lanes."""
    eagle = Lane(proposer="eagle", options={"depth": 3, "nodes": 4})
    assert labels([eagle])[1] == "B · EAGLE head, levels = 3, tokens sent = 4"
    asked = Request("abc", (eagle.settings(Settings()),), labels([eagle]), names=names([eagle]))
    kept = replace(asked, names=())
    assert asked == kept and asked.short != kept.short == kept.labels


@given(some.text(max_size=200))
def test_no_address_breaks_the_page(text: str) -> None:
    lane, complaints = decode(text)
    assert lane.proposer in PROPOSERS
    assert all(re.search(r"\.( Did you mean “[^”]+”\?)?$", sentence) for sentence in complaints)
    assert decode(encode(lane)) == (lane, [])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("quill", "requests the proposer “quill”, which does not exist here"),
        ("Draft_Model", "does not exist here; “Draft model” is used. Did you mean “draft-model”?"),
        ("draft-model;rule=typcal", "Did you mean “typical”?"),
        ("branching;o.widht=3", "Did you mean “width”?"),
        ("none", "Plain decoding is in every comparison already"),
        (
            "draft-model;gamma=99",
            "The draft length γ has to be a whole number from 1 to 16; the link says 99",
        ),
        ("draft-model;memory=-1", "The memory budget has to be"),
        ("draft-model;rule=magic", "requests the rule “magic”"),
        ("draft-model;length=far", "requests the length “far”"),
        ("draft-model;overlap=perhaps", "Overlap has to be true or false"),
        ("branching;o.width=99", "Width (Branching draft) has to be a whole number from 1 to 16"),
        ("branching;o.colour=red", "Branching draft has no option “colour”"),
        ("draft-model;r.epsilon=0.1", "Speculative sampling has no option “epsilon”"),
        ("draft-model;colour=red", "A lane has no setting “colour”"),
        ("draft-model;" + "x" * 5_000, "longer than 4,000 characters"),
    ],
)
def test_what_an_address_says_wrongly_is_reported_and_the_rest_holds(text: str, sentence: str) -> None:
    lane, complaints = decode(text)
    assert any(sentence in complaint for complaint in complaints), complaints
    check(lane.settings(SHARED))


def test_a_seventh_lane_is_left_out_with_a_sentence() -> None:
    found, complaints = from_address(["draft-model;gamma=2"] * 6)
    assert len(found) == 5
    assert complaints == ["A comparison has at most 6 lanes; the link's other ones are left out."]


@pytest.mark.parametrize("preset", core.PRESETS, ids=lambda preset: preset.name)
def test_every_ready_made_comparison_can_run(preset: core.Preset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the shipped prompts, not the tests'
    assert 1 <= len(preset.lanes) < core.MAX_LANES_COMPARED
    shared = SHARED.but(temperature=preset.temperature or 0.0)
    for lane in preset.lanes:
        lane.settings(shared)
    assert preset.prompt is None or presets.find(preset.prompt) is not None
    assert len({encode(lane) for lane in preset.lanes}) == len(preset.lanes)


def raced(lanes: list[Settings]) -> list[Trace]:
    found = {
        event.lane: event.trace
        for event in race(scripted_models(), "abc", lanes)
        if isinstance(event, Finished)
    }
    return [found[lane] for lane in range(len(lanes))]


LANES = [
    Settings(proposer="none", max_new_tokens=40),
    Settings(max_new_tokens=40, draft_length=3),
    Settings(proposer="branching", max_new_tokens=40),
    Settings(rule="typical", max_new_tokens=40),
]


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    return raced(LANES)


def test_the_table_s_values_are_the_traces_own(traces: list[Trace]) -> None:
    """Each figure again, from the rounds."""
    rows = {row.key: row for row in table(traces, LANES)}
    for lane, trace in enumerate(traces):
        verdicts = [verdict for row in trace.rounds for verdict in row.nodes.verdict]
        tokens = sum(len(row.committed.token) for row in trace.rounds)
        seconds = sum(row.draft_s + row.verify_s + row.judge_s + row.commit_s for row in trace.rounds)
        cells = {key: row.cells[lane].value for key, row in rows.items()}
        assert cells["target_passes"] == len(trace.rounds)
        assert cells["proposed"]["value"] == len(verdicts)
        assert cells["wasted"]["value"] == len(verdicts) - verdicts.count("accepted")
        assert cells["tokens_per_pass"] == pytest.approx(tokens / len(trace.rounds))
        assert cells["tokens_per_second"] == pytest.approx(tokens / seconds)
        drafting = sum(row.draft_s for row in trace.rounds)  # plain decoding has nothing to draft
        assert cells["draft_s"] == pytest.approx(drafting if lane else 0.0)
        assert cells["draft_s"] + cells["verify_s"] + cells["other_s"] == pytest.approx(seconds)
        assert cells["verify_s"] == pytest.approx(sum(row.verify_s for row in trace.rounds))
        plain = sum(row.draft_s + row.verify_s + row.judge_s + row.commit_s for row in traces[0].rounds)
        assert cells["speedup"]["value"] == pytest.approx((tokens / seconds) / (40 / plain))
    alpha = rows["acceptance_rate"].cells[1].value
    judged = [
        verdict
        for row in traces[1].rounds
        for verdict in row.nodes.verdict
        if verdict in ("accepted", "rejected")
    ]
    share, count, z = judged.count("accepted") / len(judged), len(judged), 1.959964
    assert alpha["value"] == pytest.approx(share)
    # the ends of Wilson's interval solve (share − x)² = z² x (1 − x) / n
    for end in (alpha["low"], alpha["high"]):
        assert (share - end) ** 2 == pytest.approx(z * z * end * (1 - end) / count)
    assert rows["acceptance_rate"].cells[2].value == {"by_depth": traces[2].stats.acceptance_by_depth}
    assert "one run, not repeated" in rows["speedup"].cells[1].note


def test_a_bound_is_called_one() -> None:
    lanes = [LANES[0], Settings(proposer="oracle", max_new_tokens=40)]
    assert "a bound" in table(raced(lanes), lanes)[0].cells[1].note


def test_downloads_hold_what_the_table_shows(traces: list[Trace]) -> None:
    ledgers = [ledger(trace, scripted_models()) for trace in traces]  # type: ignore[arg-type]
    labels = ["A · Plain", "=cmd|' /C calc'!A0", "C", "D"]
    rows = table(traces, LANES, (), ledgers)
    lines = list(csv.DictReader(io.StringIO(csv_of(frame(rows, labels)))))
    assert len(lines) == 4
    assert lines[1]["lane"].startswith("'=")
    assert float(lines[1]["speedup"]) == pytest.approx(rows[0].cells[1].value["value"])
    assert int(lines[1]["wasted"]) == traces[1].stats.proposed - traces[1].stats.accepted
    content = json.loads(to_json(rows, labels, {"format": "specdec-comparison"}, ledgers))
    assert content["format"] == "specdec-comparison"
    assert [lane["target_passes"] for lane in content["lanes"]] == [
        trace.stats.target_passes for trace in traces
    ]
    assert content["lanes"][1]["ledger"][0]["name"] == "Logits of the widest pass"
    assert all(figure["definition"] and figure["source"] for figure in content["figures"])


def test_a_hostile_label_stays_text(traces: list[Trace]) -> None:
    shown = html(table(traces, LANES), ["<img src=x onerror=alert(1)>"] * 4, [0, 1, 2, 3])
    assert "<img" not in shown
    assert markup.escape("<img src=x onerror=alert(1)>") in shown


def test_a_lossy_text_s_distance_is_counted_from_the_record(traces: list[Trace]) -> None:
    """At temperature 0: tokens that are not the target's likeliest, found here by asking the target itself."""
    from .conftest import next_probs

    lossy = raced([Settings(proposer="none", max_new_tokens=40),
                   Settings(rule="ensemble", rule_options={"weight": 0.1}, max_new_tokens=40)])  # fmt: skip
    text = [0, 1, 2]
    other = 0
    for token in lossy[1].token_ids:
        weights = next_probs(tuple(text))
        other += token != weights.index(max(weights))
        text.append(token)
    found = distance(*lossy)
    assert other > 0
    assert found.share == pytest.approx(other / 40)
    assert not found.lossless and found.source == "measured"
    assert f"{other} of 40 tokens" in found.sentence
    same = distance(traces[0], traces[1])
    assert same.lossless and same.share == 0.0 and same.source == "exact"


def test_above_temperature_0_a_lossy_text_is_judged_by_the_same_coins() -> None:
    """Kept although the coin says no to min(1, p/q), from the record's own columns; after that all falls."""
    lanes = [
        Settings(proposer="none", max_new_tokens=60, temperature=1.0),
        Settings(rule="ensemble", rule_options={"weight": 0.1}, max_new_tokens=60, temperature=1.0),
    ]
    traces = raced(lanes)
    kept = 0
    for row in traces[1].rounds:
        nodes, alive = row.nodes, True
        for node, verdict in enumerate(nodes.verdict):
            if verdict != "accepted":
                break
            assert nodes.p and nodes.q and nodes.coin
            alive = alive and nodes.coin[node] < min(1.0, nodes.p[node] / nodes.q[node])  # type: ignore[operator]
            kept += not alive
    found = distance(*traces)
    assert kept > 0
    assert found.share == pytest.approx(kept / 60)
    assert distance(traces[0], raced([lanes[0], lanes[0].but(proposer="draft-model")])[1]).source == "exact"


@pytest.mark.parametrize(
    ("rule", "options"), [("confidence", {}), ("typical", {}), ("ensemble", {"weight": 0.9})]
)
def test_what_a_lossy_rule_refuses_wrongly_is_counted_as_well(rule: str, options: dict[str, Any]) -> None:
    """Rejected although the coin says yes to min(1, p/q), from the record's own columns. Catches: “0.0%” of a rule
    that keeps nothing wrongly and yet refuses half of what speculative sampling would keep."""
    lanes = [Settings(proposer="none", max_new_tokens=60, temperature=1.0, seed=5)]
    plain, lane = raced([*lanes, lanes[0].but(proposer="draft-model", rule=rule, rule_options=options)])
    kept = accepted = refused = rejected = 0
    for row in lane.rounds:
        nodes, alive = row.nodes, True
        for node, verdict in enumerate(nodes.verdict):
            if verdict not in ("accepted", "rejected"):
                break
            assert nodes.p and nodes.q and nodes.coin
            alive = alive and nodes.coin[node] < min(1.0, nodes.p[node] / nodes.q[node])  # type: ignore[operator]
            accepted, rejected = accepted + (verdict == "accepted"), rejected + (verdict == "rejected")
            kept += verdict == "accepted" and not alive
            refused += verdict == "rejected" and alive
    found = distance(plain, lane)
    assert rejected > 0
    assert (rule == "confidence") <= (kept == 0 < refused)
    assert found.share == pytest.approx(kept / 60) and found.refused == pytest.approx(refused / rejected)
    assert (
        f"false acceptances {kept} of {accepted} guesses, false rejections {refused} of {rejected}"
        in found.short
    )
    assert f"would have kept {refused} of the {rejected} that were rejected" in found.sentence


def test_lanes_that_were_stopped_are_the_same_only_as_far_as_both_went() -> None:
    """Catches: “same text · exact” of a lane of which most had nothing to be compared with."""
    (short,), (long,) = (
        raced([Settings(proposer="none", max_new_tokens=20)]),
        raced([Settings(max_new_tokens=52)]),
    )
    short, long = replace(short, end="cancelled"), replace(long, end="cancelled")
    for plain, lane, share in ((short, long, None), (long, short, 0.0)):
        found = distance(plain, lane)
        assert found.lossless and found.share == share
        assert found.short == "lossless, same as far as both wrote (20 tokens)"
        assert "The run was stopped." in found.sentence
    same = distance(short, short)
    assert (same.short, same.share) == ("lossless, same text", 0.0) and "stopped" in same.sentence
    assert "stopped" not in distance(*raced([LANES[0], LANES[1]])).sentence


def test_what_the_record_does_not_say_is_not_made_up() -> None:
    lanes = [Settings(proposer="none", max_new_tokens=20),
             Settings(rule="typical", max_new_tokens=20, record="tokens")]  # fmt: skip
    found = distance(*raced(lanes))
    assert found.share is None and found.source == "" and "cannot be counted" in found.sentence


def test_differences_are_the_places_only_one_lane_guessed(traces: list[Trace]) -> None:
    """Walked here token by token: which lane committed it as an accepted guess."""
    first, second = traces[0], traces[1]
    found = differences(first, second)
    sources = [source for row in second.rounds for source in row.committed.source]
    assert found.parts is None
    assert [spot.position for spot in found.spots] == [
        at for at, source in enumerate(sources) if source == "accepted"
    ]
    for spot in found.spots:
        assert spot.outcomes == ("not guessed", "accepted")
        row = second.rounds[spot.rounds[1]]
        assert spot.nodes[1] is not None
        assert second.texts[str(row.nodes.token[spot.nodes[1]])] == spot.guesses[1]
    chains = differences(second, traces[2])
    for spot in chains.spots:
        assert "accepted" in spot.outcomes and spot.outcomes[0] != spot.outcomes[1]


def opened(**params: str | list[str]) -> AppTest:
    """The comparison page after its first run."""
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page("app_pages/compare.py")
    for key, value in params.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def addressed(at: AppTest) -> list[str]:
    value = at.query_params.get("lane", [])
    return value if isinstance(value, list) else [value]


def raced_page(at: AppTest, runs: Runs) -> AppTest:
    press(at, "go")
    assert not at.error, [error.value for error in at.error]
    return finish(at, runs)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_opens_with_plain_decoding_and_two_lanes(fresh: Runs, theme: str) -> None:
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.context["theme"] = theme
    at.switch_page("app_pages/compare.py").run()
    assert not at.exception
    assert at.title[0].value == "Compare"
    assert addressed(at) == []
    html = " ".join(element.proto.body for element in at.get("html"))
    for letter in "ABC":
        assert f'aria-label="Lane {letter}"' in html


def test_a_lane_is_built_in_the_form_and_kept_in_the_address(fresh: Runs) -> None:
    at = opened(tokens="24")
    press(at, "add_lane")
    at.selectbox(key="lane3.proposer").set_value("branching").run()
    at.slider(key="lane3.o.branching.width").set_value(5)
    at.selectbox(key="lane3.rule").set_value("kseq").run()
    at.selectbox(key="lane3.length").set_value("heuristic").run()
    assert not at.exception
    lane, complaints = decode(addressed(at)[-1])
    assert complaints == []
    assert lane == Lane("branching", rule="kseq", length="heuristic", options={"width": 5})
    press(at, "done")
    assert not [box for box in at.selectbox if box.key == "lane3.proposer"]
    again = opened(tokens="24", lane=addressed(at))
    assert not again.warning
    assert addressed(again) == addressed(at)
    raced_page(again, fresh)
    run = fresh.get(param(again, "run"))
    assert run is not None
    assert [settings.proposer for settings in run.request.lanes] == [
        "none",
        "draft-model",
        "prompt-lookup",
        "branching",
    ]
    assert run.request.lanes[3].options == {"width": 5}
    assert run.request.lanes[3].rule == "kseq"


def test_lanes_are_duplicated_moved_and_removed(fresh: Runs) -> None:
    at = opened(lane=["draft-model;gamma=2", "lookahead"])
    at.menu_button(key="lane1.more").click("copy").run()
    assert addressed(at) == ["draft-model;gamma=2", "draft-model;gamma=2", "lookahead"]
    at.menu_button(key="lane2.more").click("left").run()
    assert addressed(at) == ["draft-model;gamma=2", "lookahead", "draft-model;gamma=2"]
    at.menu_button(key="lane1.more").click("remove").run()
    assert addressed(at) == ["lookahead", "draft-model;gamma=2"]
    at.menu_button(key="lane2.more").click("remove").run()
    assert addressed(at) == ["draft-model;gamma=2"]
    assert not [menu for menu in at.menu_button if menu.key == "lane3.more"]  # one entry is a button
    at.button(key="lane3.only").click().run()
    assert addressed(at) == ["draft-model;gamma=2"] * 2


def test_a_lane_that_cannot_run_says_so_at_its_card_and_before_a_run(fresh: Runs) -> None:
    at = opened(lane=["branching;rule=block", "medusa"])
    shown = words(at).replace("\\", "")
    with pytest.raises(Exception) as refused:  # noqa: PT011 (the core's own sentence is what the page has to show)
        check(Settings(proposer="branching", rule="block"))
    assert str(refused.value) in shown
    assert "The proposer 'medusa'" in shown  # the scripted models have no heads
    press(at, "go")
    assert at.error[0].value.replace("\\", "").startswith("Lane B: ")
    assert sum(fresh.counts().values()) == 0


def test_the_table_on_the_page_shows_the_run_s_figures(fresh: Runs) -> None:
    at = raced_page(opened(tokens="32", tab="Table"), fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None
    shown = next(element.proto.body for element in at.get("html") if "sd-table" in element.proto.body)
    plain = re.sub(r"<[^>]+>", "|", shown)
    for trace in run.traces.values():
        assert f"|{trace.stats.target_passes}|" in plain
        assert f"|{trace.stats.tokens_per_pass:.2f}|" in plain
    assert "one run, not repeated" in plain
    assert "No recommendation yet" in words(at)


def test_repeats_bring_a_spread_and_advice(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.compare import sweeps

    monkeypatch.setattr(visitor, "of_session", lambda: "anna")
    sweeps.sweeps.cache_clear()
    at = raced_page(opened(tokens="24", tab="Table"), fresh)
    press(at, "repeat")
    job = sweeps.sweeps().get(param(at, "repeats"), "anna")
    assert job is not None
    assert job.wait(60)
    at.run()
    assert not at.exception
    assert [row.error for row in job.rows] == [None] * 21
    shown = next(element.proto.body for element in at.get("html") if "sd-table" in element.proto.body)
    assert "mean of 7 repeats: lowest" in shown
    assert "nothing about other prompts" in words(at).replace("\\", "")
    assert "the mean of 7 repeats, without the first run" in words(at)
    first, mean = (
        measured_speedup(*(fresh.get(param(at, "run")).traces[lane].stats for lane in (0, 1))),  # type: ignore[union-attr]
        geometric_mean(speedups(job.rows, 1)),
    )
    for tab in ("Race", "Charts", "Export", "What if"):
        again = opened(tokens="24", tab=tab, run=param(at, "run"))
        again.query_params["repeats"] = job.id
        again.run()
        assert not again.exception
        if tab == "What if":
            shown = json.loads(again.get("plotly_chart")[0].proto.spec)["data"][0]
            assert "mean of 7 repeats" in shown["name"] and shown["x"][0] == pytest.approx(mean) != first
        else:
            assert "first run; the " in words(again) and "has the mean of 7 repeats" in words(again), tab
            assert "machine, this run" not in "".join(note.value for note in again.caption), tab
        if tab == "Race":
            why = next(part for element in again.get("html") if "sd-why" in (part := element.proto.body))
            leading = [lane.partition(" First run: ")[0] for lane in re.findall(r"<p>([^<]+)</p>", why)]
            assert leading == [timing.verdict(job.rows, lane) for lane in (1, 2)] and all(leading)
    press(at, "go")  # another run: the repeats were not of it
    assert "repeats" not in at.query_params
    finish(at, fresh)
    sweeps.sweeps.cache_clear()


def test_repeats_pressed_again_add_to_those_before(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: seven repeats that are thrown away for others; more than the most; a stopped press that is lost."""
    from app.compare import repeats, sweeps

    monkeypatch.setattr(repeats, "TURNS", 2)
    monkeypatch.setattr(repeats, "PRESSES", 2)
    sweeps.sweeps.cache_clear()
    at = raced_page(opened(tokens="24", tab="Table"), fresh)
    assert at.button(key="repeat").label == "Repeat 2 times"
    jobs: list[Any] = []
    for again, turns in (("Repeat 2 more times", 2), ("Repeat 1 more times", 3), ("Repeat 2 more times", 4)):
        press(at, "repeat")
        job = sweeps.sweeps().get(param(at, "repeats"), "")
        assert job is not None and job.wait(60)
        if turns == 3:  # stopped in its second turn
            job.rows, job.state = job.rows[:-2], "stopped"
        at.run()
        assert not at.exception
        assert at.button(key="repeat").label == again
        assert at.button(key="repeat").disabled == (turns == 4)
        shown = next(element.proto.body for element in at.get("html") if "sd-table" in element.proto.body)
        assert f"mean of {turns} repeats: lowest" in shown
        assert all(row in job.rows for before in jobs[-1:] for row in before.rows[: 3 * (turns - 1)])
        jobs.append(job)
    run = fresh.get(param(at, "run"))
    assert run is not None
    monkeypatch.setattr("streamlit.query_params", {"repeats": jobs[-1].id})
    found = repeats.rows(run)
    assert sorted((row.repeat, row.lane) for row in found) == [
        (turn, lane) for turn in range(4) for lane in range(3)
    ]
    assert {row.name for row in found} == {"prompt"}
    sweeps.sweeps.cache_clear()


def test_every_tab_opens_after_a_run(fresh: Runs) -> None:
    for name in ("Table", "Charts", "Prompts", "What if", "Export"):
        at = raced_page(opened(tokens="20", tab=name), fresh)
        assert not at.exception, name
    assert len(at.code) >= 5
    # a link's words name the first; the library imports the second
    assert {"Player (HTML)", "Race (JSON)"} <= {button.proto.label for button in at.get("download_button")}
    raced = fresh.get(param(at, "run"))
    assert raced is not None
    rates = {lane: trace.stats.tokens_per_second or 0.0 for lane, trace in raced.traces.items() if lane}
    assert at.selectbox(key="portable_lane").value == max(rates, key=rates.__getitem__), (
        "the fastest guessing lane"
    )
    at.selectbox(key="portable_lane").set_value(2).run()
    transformers = at.code[-9].value
    assert "assistant_model" not in transformers and "prompt_lookup_num_tokens=4" in transformers
    prompt = next(area.value for area in at.text_area if area.label == "Prompt")
    assert f"prompt = {prompt!r}\n" in transformers and f"prompt = {prompt!r}\n" in at.code[-5].value
    at.selectbox(key="portable_lane").set_value(1).run()
    transformers, vllm, sglang, llama_cpp, lm_studio, openvino, mlx, onnx, node = (
        code.value for code in at.code[-9:]
    )
    assert "num_assistant_tokens=4" in transformers
    assert '"method": "draft_model"' in vllm
    assert "--speculative-algorithm STANDALONE" in sglang and "--spec-type draft-simple" in llama_cpp
    assert "'draftModel': " in lm_studio
    assert "draft_model=ov.draft_model(" in openvino and "num_draft_tokens=4" in mlx
    assert "max_draft_tokens=4" in onnx and '"maxTokens": 4' in node


def test_why_and_where_they_part_stand_below_the_race(fresh: Runs) -> None:
    at = raced_page(opened(tokens="32"), fresh)
    (shown,) = (part for element in at.get("html") if "sd-why" in (part := element.proto.body))
    assert (
        shown.lower().count("biggest cost:") + shown.count("No single loss")
        == shown.count('class="bar"')
        == 2
    )
    run = fresh.get(param(at, "run"))
    assert run is not None
    spots = differences(run.traces[1], run.traces[2]).spots
    buttons = [button for button in at.button if (button.key or "").startswith("spot-")]
    assert len(buttons) == min(len(spots), 40) > 0
    buttons[0].click().run()
    assert not at.exception
    assert (param(at, "lead"), param(at, "round")) == ("2", str(spots[0].rounds[1] + 1))


def test_a_lane_without_rounds_is_not_called_too_short(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: “too little was decoded” over 40 tokens of which only the record is missing."""
    from dataclasses import replace

    from app.decoding.run import Run

    at = raced_page(opened(tokens="40"), fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None
    bare = {lane: replace(trace, rounds=[]) if lane == 1 else trace for lane, trace in run.traces.items()}
    monkeypatch.setattr(Run, "traces", property(lambda run: bare))
    at.run()
    assert not at.exception
    (shown,) = (part for element in at.get("html") if "sd-why" in (part := element.proto.body))
    assert shown.count("Recorded without its rounds") == 1 and "Too few tokens were decoded" not in shown


def test_a_link_that_hides_parts_opens_the_whole_comparison(fresh: Runs) -> None:
    """Older links could name parts to leave out. Catches: one that is complained about, or still leaves them out."""
    at = raced_page(
        opened(lane=["draft-model;gamma=2", "branching"], tokens="20", hide="lanes,why,table"), fresh
    )
    run = fresh.get(param(at, "run"))
    assert run is not None and [lane.proposer for lane in run.request.lanes] == [
        "none",
        "draft-model",
        "branching",
    ]
    assert [tab.label for tab in at.tabs] == ["Race", "Table", "Charts", "Prompts", "What if", "Export"]
    assert any("sd-why" in element.proto.body for element in at.get("html")) and not at.warning
    assert not hides(" ".join(element.proto.body for element in at.get("html")))


def test_a_presentation_of_a_comparison_is_the_race_alone(fresh: Runs) -> None:
    at = raced_page(opened(tokens="20", tab="Table"), fresh)
    press(at, "present_now_compare")
    assert param(at, "present") == "1"
    assert len(at.tabs) == 0 and not any("sd-why" in element.proto.body for element in at.get("html"))
    assert any("stHeader" in element.proto.body for element in at.get("html"))
    press(at, "leave")
    assert "present" not in at.query_params and at.tabs[0].label == "Race"


def test_a_presentation_of_nothing_says_so(fresh: Runs) -> None:
    shown = words(opened(present="1"))
    assert "There is no run to present" in shown and "Press Run and watch" not in shown


def test_a_preset_sets_lanes_prompt_and_temperature(fresh: Runs) -> None:
    at = opened(lane=["lookahead"])
    at.menu_button(key="ready_made").click("lossy").run()
    assert not at.exception
    wanted = next(preset for preset in core.PRESETS if preset.name == "lossy")
    assert from_address(addressed(at)) == (list(wanted.lanes), [])
    assert at.slider(key="temperature").value == wanted.temperature


def test_what_is_left_of_the_run_before_says_so_until_run_takes_it_away(fresh: Runs) -> None:
    """Catches: a table under lanes that it is not of; verdicts of the run before under the race that goes on."""
    at = raced_page(opened(lane=["lookahead"], tokens="20"), fresh)
    assert not at.info

    def judged() -> bool:
        return any("sd-why" in element.proto.body for element in at.get("html"))

    at.menu_button(key="ready_made").click("length").run()
    assert judged() and "from the previous run, with other lanes or settings" in at.info[0].value
    at.slider(key="temperature").set_value(0.8).run()  # whatever is changed then
    assert judged() and len(at.info) == 1
    before = param(at, "run")
    press(at, "go")
    assert param(at, "run") != before and not at.info
    assert not judged() or fresh.get(param(at, "run")).finished  # type: ignore[union-attr]


def test_the_prompt_comes_along_from_the_lab_and_back(fresh: Runs) -> None:
    """Catches: a text lost on the way between the pages, or the lab's controls left in a state it cannot draw."""
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    at.text_area(key="prompt").set_value("abcabc").run()
    at.switch_page("app_pages/compare.py").run()
    assert not at.exception
    assert at.text_area(key="prompt").value == "abcabc"
    at.text_area(key="prompt").set_value("abca").run()
    at.switch_page("app_pages/lab.py").run()
    assert not at.exception
    assert at.text_area(key="prompt").value == "abca"
    assert at.selectbox(key="proposer").value == "draft-model"


def test_lanes_and_the_last_comparison_are_there_again_after_another_page(fresh: Runs) -> None:
    """Catches: lanes, and what they wrote, lost by a look at the lab."""
    lanes = ["branching;o.width=2", "prompt-lookup", "lookahead"]
    at = raced_page(opened(lane=lanes, tokens="8"), fresh)
    run = param(at, "run")
    at.switch_page("app_pages/lab.py").run()
    assert not at.exception
    for key in ("lane", "run"):  # as the browser has it after a click on another page's name
        at.query_params.pop(key, None)
    at.switch_page("app_pages/compare.py").run()
    assert not at.exception
    assert addressed(at) == lanes
    assert param(at, "run") == run


def test_a_number_out_of_range_in_a_lane_s_form_refuses_the_race(fresh: Runs) -> None:
    """Catches: a box with bounds, which Streamlit sends only if it fits: the race would take the number before."""
    at = opened(lane=["draft-model"])
    (name,) = at.session_state["lanes"]
    at.button(key=f"{name}.change").click().run()
    box = at.number_input(key=f"{name}.memory")
    assert not (box.proto.has_min or box.proto.has_max)
    box.set_value(-5.0).run()
    at.button(key="go").click().run()
    assert not at.exception and param(at, "run") is None
    assert "The memory budget has to be a number from 0 to 1,000,000, not" in at.error[0].value


def test_a_link_s_mistakes_below_the_lanes_are_reported_before_there_is_a_run(fresh: Runs) -> None:
    """Catches: a tab or a machine that does not exist, ignored without a word; a good one that is complained about."""
    at = opened(tab="Zzz", wb="-3", wp="nope", wt="huge")
    shown = at.warning[0].value.replace("\\", "")
    for sentence in ("the tab “Zzz”", "“Race” is used", "machine “nope”", "batch “-3”", "target size “huge”"):
        assert sentence in shown
    assert "machine “nope”" in opened(tab="What if", wp="nope").warning[0].value
    (machine, *_) = whatif.profiles()[0]
    assert not opened(tab="What if", wb="8", wp=machine, wt="8B", wd="1B", wc="512").warning
    today = {"machine": "nope", "batch": "8", "target_size": "8B", "draft_size": "1B", "context": "512"}
    assert "machine “nope”" in opened(tab="What if", **today).warning[0].value
    assert not opened(tab="What if", **(today | {"machine": machine})).warning


def test_a_link_s_mistakes_are_reported(fresh: Runs) -> None:
    at = opened(lane=["quill", "branching;o.width=99"], gamma="3", tokens="99999", colour="red")
    shown = at.warning[0].value.replace("\\", "")
    for sentence in (
        "proposer “quill”",
        "Width (Branching draft)",
        "The number of new tokens has to be",
        "“gamma”, “colour”",
    ):
        assert sentence in shown
    assert addressed(at) == ["draft-model", "branching"]
