"""What the comparison's table says of speed: repeats, noise, and guesses that nobody sent."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from math import log
from statistics import fmean, geometric_mean, stdev

import pytest

from app.compare.divergences import none_alone
from app.compare.export_tab import checked
from app.compare.repeats import noise
from app.compare.table import STYLE, frame, table
from app.compare.table import html as as_html
from app.compare.timing import answer, best, speedups, verdict
from app.metrics.differences import Differences
from app.metrics.numbers import measured_speedup
from app.running.why import Why, html
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_measure.analysis.advice import advise
from specdec_measure.analysis.diagnosis import why
from specdec_measure.sweep.measured import MeasuredCase

from .test_compare import LANES, raced


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    return raced(LANES)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([1.28, 0.88, 1.2, 0.95, 1.1, 0.97, 1.05],
         "Not clearly faster than plain, 1.05× over 7 repeats (0.88 to 1.28)."),
        ([1.2, 1.3, 1.25, 1.3, 1.2, 1.3], "Faster, 1.26× over 6 repeats (1.20 to 1.30)."),
        ([0.8, 0.7, 0.75, 0.7, 0.8, 0.7], "Slower, 0.74× over 6 repeats (0.70 to 0.80)."),
        ([1.3, 1.2], "Not clearly faster than plain, 1.25× over 2 repeats (1.20 to 1.30); too few to tell, which takes "
         "at least 6."),
        ([1.0], "About as fast as plain, 1.00× over 1 repeat; too few to tell, which takes at least 6."),
        ([], ""),
    ],
)  # fmt: skip
def test_repeats_decide_what_is_called_faster(ratios: list[float], said: str) -> None:
    """Catches: a verdict from the first run alone above seven repeats that do not bear it out."""
    cells = [
        MeasuredCase("own", "prompt", lane, "x", turn, tokens=40, seconds=seconds)
        for turn, ratio in enumerate(ratios)
        for lane, seconds in enumerate((2.0, 2.0 / ratio))
    ]
    assert verdict(cells, 1) == said


@pytest.mark.parametrize(
    ("fast", "clock"),
    [
        ([1.2, 1.3, 1.25, 1.3, 1.2, 1.3], "C, 1.26× plain decoding (95% interval 1.2"),
        ([1.28, 0.88, 1.2, 0.95, 1.1, 0.97], "undecided (C, 1.05× plain decoding, 95% interval 0."),
    ],
)
def test_the_answer_names_the_lane_to_take_by_passes_and_by_the_clock(
    traces: list[Trace], fast: list[float], clock: str
) -> None:
    """Catches: a ranking by a disturbed clock; a lossy lane that is recommended; a lead that is luck."""
    letters = ("A", "B", "C", "D")
    ranked = sorted((1, 2), key=lambda at: -(traces[at].stats.tokens_per_pass or 0.0))
    passes = ", ".join(f"{letters[at]} {traces[at].stats.tokens_per_pass:.2f}" for at in ranked)
    cells = [
        MeasuredCase("own", "prompt", lane, "x", turn, tokens=40, seconds=seconds)
        for turn, ratio in enumerate(fast)
        for lane, seconds in enumerate((2.0, 2.0 / 0.9, 2.0 / ratio, 0.1))
    ]
    said = answer(traces, range(4), letters, cells, leave_out=[3])
    assert said.startswith(f"By tokens per pass: {passes}. By the clock: {clock}")
    assert ("repeat the race" in said) == clock.startswith("undecided") and "D" not in said
    once = answer(traces, range(4), letters, [], leave_out=[3])
    assert "within this one run" in once
    assert answer(traces[:1], [0], letters, []) == ""


def test_the_best_cells_of_the_table_are_marked(traces: list[Trace]) -> None:
    """Catches: the most passes marked as best; plain decoding, which wastes nothing, as the best guesser."""
    rows = {row.key: [cell.value for cell in row.cells] for row in table(traces, LANES)}
    for key, pick in (("tokens_per_pass", max), ("target_passes", min)):
        found = [getattr(trace.stats, key) for trace in traces]
        assert best(key, rows[key]) == [value == pick(found) for value in found]
    assert not best("wasted", rows["wasted"])[0] and not any(best("text", rows["text"]))


def test_repeats_give_the_speedup_its_spread(traces: list[Trace]) -> None:
    def cell(lane: int, repeat: int, seconds: float, tokens: int = 40) -> MeasuredCase:
        return MeasuredCase("own", "prompt", lane, "x", repeat, tokens=tokens, seconds=seconds)

    cells = [
        cell(0, 0, 4.0),
        cell(1, 0, 2.0),
        cell(0, 1, 4.0),
        cell(1, 1, 1.0),
        cell(0, 2, 6.0),
        cell(1, 2, 2.0),
    ]
    cells += [cell(1, 3, 0.1), cell(0, 4, 4.0), cell(1, 4, 0.1, tokens=8)]  # half a turn, and too few tokens
    assert speedups(cells, 1) == [2.0, 4.0, 3.0]
    row = table(traces, LANES, cells)[0]
    race = measured_speedup(traces[0].stats, traces[1].stats)
    mean = 24 ** (1 / 3)
    assert row.cells[1].value == {
        "value": pytest.approx(mean),
        "lowest": 2.0,
        "highest": 4.0,
        "repeats": 3,
        "race": race,
    }
    assert row.cells[1].text == "2.88×" and row.cells[1].note.startswith(
        "mean of 3 repeats: lowest 2.00, highest 4.00"
    )
    assert "one run" in row.cells[2].note
    kept = [0, 2]  # lane 1 left no trace: its repeats are not lane 2's
    row = table([traces[at] for at in kept], [LANES[at] for at in kept], cells, (), kept)[0]
    assert "one run" in row.cells[1].note


def test_six_repeats_give_the_speedup_an_interval(traces: list[Trace]) -> None:
    """Catches: extremes exported under the names that hold a 95% interval elsewhere in the same file."""
    ratios = [1.2, 1.3, 1.25, 1.3, 1.2, 1.35]
    cells = [
        MeasuredCase("own", "prompt", lane, "x", turn, tokens=40, seconds=seconds)
        for turn, ratio in enumerate(ratios)
        for lane, seconds in enumerate((2.0, 2.0 / ratio))
    ]
    cell = table(traces[:2], LANES[:2], cells)[0].cells[1]
    mean, low, high = geometric_mean(ratios), cell.value["low"], cell.value["high"]
    assert min(ratios) < low < mean < high < max(ratios)
    error = 1.96 * stdev(log(ratio) for ratio in ratios) / 6**0.5
    assert log(high / low) == pytest.approx(2 * error, rel=0.2)  # a bootstrap of six is a little narrower
    assert cell.note.startswith(f"95% interval {low:.2f} to {high:.2f}; mean of 6 repeats: lowest 1.20")
    (few,) = [table(traces[:2], LANES[:2], cells[:10])[0].cells[1].value]
    assert few["repeats"] == 5 and "low" not in few
    assert table(traces[:2], LANES[:2])[0].cells[1].value["repeats"] == 0


def test_what_a_pass_costs_is_in_the_table_and_the_downloads(traces: list[Trace]) -> None:
    """T(n)/T(1) and c against the traces. Catches: c of draft passes that were not on the clock; n without the root."""
    cells = {row.key: row.cells for row in table(traces, LANES)}["pass_cost"]
    unit = fmean(row.verify_s for row in traces[0].rounds)
    for cell, trace in zip(cells, traces, strict=True):
        passes = sum(row.draft_passes for row in trace.rounds)
        unread = ("pruned", "discarded")
        read = fmean(1 + sum(said not in unread for said in row.nodes.verdict) for row in trace.rounds)
        assert cell.value["value"] == pytest.approx(fmean(row.verify_s for row in trace.rounds) / unit)
        assert cell.value["tokens"] == pytest.approx(read)
        drafting = sum(row.draft_s for row in trace.rounds)
        assert cell.value["c"] == (pytest.approx(drafting / passes / unit) if passes else None)
    assert cells[0].text == "1.00" and cells[0].note == "over 1.0 tokens" and cells[1].value["c"] is not None
    columns = frame(table(traces, LANES), ["A", "B", "C", "D"]).to_dict("list")
    assert columns["pass_cost_c"][1] == cells[1].value["c"] and columns["pass_cost"][0] == 1.0
    lanes = [LANES[0], LANES[1].but(overlap=True)]
    (beside,) = [row.cells[1].value for row in table(raced(lanes), lanes) if row.key == "pass_cost"]
    assert beside["c"] is None and beside["value"] > 0.0


def test_after_repeats_every_time_in_the_table_is_theirs(traces: list[Trace]) -> None:
    """Catches: the repeats' speedup beside the race's tokens per second, whose ratio is another."""
    cells = [
        MeasuredCase("own", "prompt", lane, "x", turn, tokens=40, seconds=seconds, draft_s=0.25 * seconds,
                 verify_s=0.5 * seconds, other_s=0.25 * seconds)
        for lane, column in enumerate(([4.0, 4.0, 9.0], [2.0, 1.0, 3.0]))
        for turn, seconds in enumerate(column)
    ]  # fmt: skip
    rows = {row.key: row.cells for row in table(traces[:2], LANES[:2], cells)}
    speeds = [cell.value for cell in rows["tokens_per_second"]]
    assert (
        speeds[1] / speeds[0]
        == pytest.approx(rows["speedup"][1].value["value"])
        == pytest.approx(24 ** (1 / 3))
    )
    assert [rows[key][1].value for key in ("draft_s", "verify_s", "other_s")] == pytest.approx(
        [0.5, 1.0, 0.5]
    )
    assert rows["draft_s"][0].value == 0.0 and rows["other_s"][0].value == pytest.approx(17 / 6)
    assert rows["tokens_per_second"][1].note == "3 repeats" and "in the race" not in rows["speedup"][1].note


def test_a_machine_that_was_not_quiet_is_named() -> None:
    """Plain decoding at 41 to 70 tokens/s within one session. Catches: a speedup's spread without its reason."""

    def cells(*seconds: float) -> list[MeasuredCase]:
        return [
            MeasuredCase("own", "prompt", 0, "x", turn, tokens=40, seconds=each)
            for turn, each in enumerate(seconds)
        ]

    said = noise(cells(40 / 70.4, 40 / 41.2, 40 / 60))
    assert said is not None and "plain decoding ran at 41 to 70 tokens/s over these repeats." in said
    assert noise(cells(1.0, 1.5, 1.2)) is None and noise(cells(1.0)) is None and noise([]) is None


def test_table_and_advice_name_the_same_figures() -> None:
    """Two estimators of one thing can put the lanes in another order: in turns of 1, 9 and 10 the median is 9, the
    geometric mean 4.5, less than that of a steady 5. Catches: a table that contradicts the recommendation below it."""
    speeds = {0: [1.0] * 3, 1: [1.0, 9.0, 10.0], 2: [5.0, 5.0, 5.0]}
    cells = [
        MeasuredCase("own", "prompt", lane, "x", turn, tokens=40, seconds=40 / speed)
        for lane, turns in speeds.items()
        for turn, speed in enumerate(turns)
    ]
    found = advise(cells, ["A", "B", "C"])
    assert found is not None and found.best == 2
    shown = {lane: geometric_mean(speedups(cells, lane)) for lane in (1, 2)}
    assert shown[2] / shown[1] == pytest.approx(found.pairs[1].ratio)
    assert shown[2] == pytest.approx(found.pairs[0].ratio)


def test_a_speedup_above_tokens_per_pass_and_one_of_two_texts_are_marked(traces: list[Trace]) -> None:
    """A round takes at least a plain pass, so τ is the most that guessing can bring."""
    stats = traces[1].stats
    quick, usual = (
        replace(traces[1], stats=replace(stats, tokens_per_second=share * (stats.tokens_per_pass or 0.0)))
        for share in (1.2, 0.9)
    )
    slow = replace(traces[0], stats=replace(traces[0].stats, tokens_per_second=1.0))
    oracle = [LANES[0], Settings(proposer="oracle", max_new_tokens=40)]
    assert "a bound: drafting is not counted; more than τ" in table([slow, quick], oracle)[0].cells[1].note
    assert "more than τ: timing noise" in table([slow, quick], LANES[:2])[0].cells[1].note
    assert "noise" not in table([slow, usual], LANES[:2])[0].cells[1].note
    lanes = [lane.but(temperature=1.0) for lane in LANES[:2]]
    ids = [*quick.output.ids[:3], (quick.output.ids[3] + 1) % 8, *quick.output.ids[4:]]
    other = replace(traces[1], output=replace(quick.output, ids=ids))
    assert table([traces[0], other], lanes)[0].cells[1].note.endswith("texts differ")
    assert "differ" not in table(traces[:2], lanes)[0].cells[1].note


def test_text_that_repeats_is_noted_beside_what_it_flatters(traces: list[Trace]) -> None:
    """Eight letters, again and again. Catches: a note at plain decoding, which guesses nothing, or one that is missing;
    a share that is not the trace's; a row without its figure in the downloads."""
    rows = {row.key: row for row in table(traces, LANES)}
    share = traces[1].loops().share
    assert share == 32 / 40
    for key in ("speedup", "acceptance_rate", "tokens_per_pass"):
        assert "80% of the text repeats" in rows[key].cells[1].note
        assert "repeats" not in rows[key].cells[0].note
    assert all("%" in cell.text for cell in rows["acceptance_rate"].cells[1:]), "as on every other page"
    cell = rows["repeated"].cells[1]
    assert cell.text == "80%" and "the last 32 of 40 tokens repeat the same 8 tokens" in cell.note
    assert frame(list(rows.values()), list("ABCDEF")[: len(traces)])["repeated"].tolist()[1] == share
    bare = [replace(one, output=replace(one.output, ids=list(range(40)))) for one in traces]
    rows = {row.key: row for row in table(bare, LANES)}
    assert [cell.text for cell in rows["repeated"].cells] == ["none"] * len(traces)
    assert not any("repeats" in cell.note for row in rows.values() for cell in row.cells)


def test_under_each_title_are_a_few_words_that_say_what_it_is(traces: list[Trace]) -> None:
    """Catches: a table of symbols and of the word “measured”, of which a newcomer has to ask what is what."""
    rows = table(traces, LANES)
    shown = as_html(rows, ["a lane"] * len(traces), range(len(traces)))
    for row in rows:
        assert 2 <= len(row.brief.split()) <= 5 and f"<small>{escape(row.brief)}</small>" in shown
    notes = [cell.note for row in rows if row.key == "acceptance_rate" for cell in row.cells]
    assert any(re.search(r"95% interval \d+% to \d+%, \d+ judged", note) for note in notes), notes


def test_guesses_that_were_never_sent_are_told_apart() -> None:
    lanes = [
        LANES[0],
        Settings(proposer="branching", max_new_tokens=40, options={"width": 3, "depth": 3, "nodes": 4}),
    ]
    found = raced(lanes)
    (cell,) = [row.cells[1] for row in table(found, lanes) if row.key == "proposed"]
    verdicts = [verdict for row in found[1].rounds for verdict in row.nodes.verdict]
    sent = sum(verdict not in ("pruned", "discarded") for verdict in verdicts)
    assert sent < len(verdicts)
    assert cell.value == {"value": len(verdicts), "sent": sent}
    assert cell.note == f"{sent:,} of them sent to the target"


def test_a_bar_of_the_round_is_as_long_as_its_cost(traces: list[Trace]) -> None:
    """Catches: segments on another scale than the mark of the tokens, so that a slow lane looks fast; a label that is
    markup; a bar that noise below zero leaves too long, so that a fast lane looks slow."""
    found = why(traces[0], traces[1])
    assert found is not None
    lane = replace(found, drafting=0.6, width=0.2, overhead=-0.1, held=0.0, unexplained=0.0, tokens=3.4)
    shown = html([Why(1, "<img src=x>", lane), Why(2, "Too few.", None)])
    assert "<img" not in shown and "&lt;img src=x&gt;" in shown
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", shown)]
    (mark,) = map(float, re.findall(r"left:([\d.]+)%\">", shown))
    assert [3.4 * width / mark for width in widths] == pytest.approx([0.9, 0.6, 0.2, 0.0], abs=0.01)
    assert mark <= 100
    (quick,) = re.findall(r'class="bar".*?</div>', html([Why(1, "", replace(lane, width=-1.2))]))
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", quick)]
    assert 3.4 * sum(widths) / float(re.findall(r"left:([\d.]+)%", quick)[0]) == pytest.approx(0.3, abs=0.01)
    assert "− 0.10" in shown and "= 1.70 plain rounds" in shown and shown.count('class="bar"') == 1
    assert "it shortens the bar" in shown  # what a negative part means is said where there is one
    assert "it shortens the bar" not in html([Why(1, "", replace(lane, overhead=0.1))])


def test_what_tests_say_of_code_to_take_along_holds_at_its_temperature() -> None:
    """Catches: the promise of the lane's text beside a comment that says the text differs."""
    assert checked(Settings()).endswith("the lane's text, token for token.")
    assert "token for token" not in checked(Settings(temperature=0.7)) + checked(Settings(rule="typical"))
    assert "random numbers are different there" in checked(Settings(temperature=0.7))
    assert "may differ" in checked(Settings(rule="typical"))
    assert checked(Settings(proposer="none", rule="typical")) == checked(Settings())


def test_a_sentence_before_a_dot_has_no_full_stop(traces: list[Trace]) -> None:
    """Catches: “All 40 tokens match lane A's. · exact”."""
    (row,) = [row for row in table(traces, LANES) if row.key == "text"]
    assert row.cells[1].note == "All 40 tokens match lane A's · exact"
    assert not any(". ·" in cell.note for cell in row.cells)


def test_the_race_s_interval_and_a_repeat_are_told_apart(traces: list[Trace]) -> None:
    """Catches: “no spread” in the table beside an interval in the Race tab."""
    row = table(traces, LANES)[0]
    assert "not repeated" in row.cells[1].note and "spread" not in row.cells[1].note
    assert "from the scatter of the rounds within this one run" in row.words


def test_where_no_place_is_listed_it_is_said_what_was_compared() -> None:
    """Catches: “no token was guessed right by only one of them” of two texts that share their first three tokens."""
    assert none_alone(Differences(None, 40, [])) == "Each token was guessed right by both or by neither."
    assert none_alone(Differences(3, 3, [])).startswith(
        "Only the 3 tokens that both wrote alike can be compared"
    )
    assert none_alone(Differences(1, 1, [])).startswith("Only the 1 token that both wrote alike")
    assert "no place" in none_alone(Differences(0, 0, []))


def test_a_table_that_is_wider_than_the_page_has_a_shadow_at_its_edge() -> None:
    """What covers the shadow scrolls with the table. Catches: columns cut at a phone's edge as if they
    were all."""
    (ground,) = re.findall(r"\.sd-scroll\{[^}]*background:([^}]*)\}", STYLE)
    cover, shadow = re.findall(r"linear-gradient\(.*?no-repeat \w+", ground, re.DOTALL)
    assert "var(--page)" in cover and cover.endswith("local")
    assert "right/" in shadow and shadow.endswith("scroll")
