"""The headline numbers and the charts say what the traces say."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from app import charts
from app.charts import timeline
from app.metrics import numbers
from app.running.downloads import csv_of
from specdec_core.record.schema import Stats
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_measure import theory
from specdec_measure.sweep.totals import MIN_TOKENS


def stats(**values: float | int | None) -> Stats:
    base = dict.fromkeys(Stats.__slots__, 0)
    base |= {"tokens": 100, "target_passes": 100, "acceptance_rate": None, "tokens_per_pass": 1.0}
    base |= {"tokens_per_second": 50.0, "prefill_s": 0.1, "verify_s": 2.0}
    return Stats(**{**base, **values})  # type: ignore[arg-type]


FAST = stats(
    target_passes=40, proposed=160, accepted=60, rejected=20, unreached=80, acceptance_rate=0.75, tokens_per_pass=2.5,
    tokens_per_second=90.0, draft_s=0.32, draft_passes=160,
)  # fmt: skip


def test_the_measured_speedup_is_time_per_token_over_time_per_token() -> None:
    """Catches: "16 times faster" over a lane that was stopped after its first token."""
    assert numbers.measured_speedup(stats(), FAST) == pytest.approx(1.8)
    assert numbers.measured_speedup(stats(tokens_per_second=None), FAST) is None
    assert numbers.measured_speedup(stats(tokens=1), FAST) is None
    assert numbers.measured_speedup(stats(), replace(FAST, tokens=MIN_TOKENS - 1)) is None


def test_the_modelled_speedup_is_the_theorem_with_this_run_s_alpha_and_c() -> None:
    modelled = numbers.modelled_speedup(stats(), FAST, gamma=4)
    assert modelled is not None
    assert modelled.cost == pytest.approx((0.32 / 160) / (2.0 / 100))
    assert modelled.speedup == pytest.approx(theory.speedup(0.75, 4, 0.1))
    assert modelled.tokens == pytest.approx(sum(0.75**at for at in range(5)))
    assert modelled.tokens / modelled.time == pytest.approx(modelled.speedup)  # the two parts that are named
    assert modelled.proposed_per_round == 4.0


def test_without_a_judged_guess_there_is_no_modelled_speedup() -> None:
    assert numbers.modelled_speedup(stats(), stats(), gamma=4) is None


def test_a_proposer_without_a_model_is_charged_per_proposed_token() -> None:
    modelled = numbers.modelled_speedup(stats(), replace(FAST, draft_passes=0), gamma=4)
    assert modelled is not None
    assert modelled.cost == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"rule": "token-matching"}, None),
        ({"rule": "exact-match", "temperature": 0.0}, None),
        *[
            ({"rule": rule}, "by another measure")
            for rule in ("block", "kseq", "typical", "confidence", "ensemble")
        ],
        ({"memory_budget_mb": 0.5}, "memory budget"),
        ({"proposer": "suffix", "options": {"shape": "chain"}}, "does not draft γ tokens"),
        ({"proposer": "text-draft"}, "the draft's own tokens"),
        ({"proposer": "prompt-lookup"}, None),
    ],
)
def test_the_modelled_speedup_is_kept_from_lanes_the_theorem_says_nothing_about(
    changes: dict[str, Any], why: str | None
) -> None:
    """Catches: a prediction for a rule that judges otherwise, for drafts that a budget cuts short, or with a γ that
    does not say how many tokens are guessed."""
    said = numbers.unmodelled(Settings().but(**changes))
    assert said is None if why is None else why in (said or "")


def test_a_draft_that_guesses_all_tokens_in_one_pass_is_charged_for_that_pass_once() -> None:
    """Catches: the whole of a parallel draft's time taken for one of γ guesses."""
    modelled = numbers.modelled_speedup(stats(), replace(FAST, draft_passes=40), gamma=4)
    assert modelled is not None
    per_round, plain_pass = 0.32 / 40, 2.0 / 100
    assert 4 * modelled.cost == pytest.approx(per_round / plain_pass)


def test_passes_saved_are_tokens_less_passes() -> None:
    assert numbers.passes_saved(FAST) == 60
    assert numbers.passes_saved(stats()) == 0


def test_equal_texts_are_said_to_be_equal(race_traces: list[Trace]) -> None:
    same, sentence = numbers.verdict_on_texts(*race_traces)
    assert same is True
    assert "the same 24 tokens" in sentence


def test_texts_that_part_at_temperature_0_are_called_out(race_traces: list[Trace]) -> None:
    plain, other = race_traces
    ids = [*other.output.ids]
    ids[5] += 1
    same, sentence = numbers.verdict_on_texts(plain, replace(other, output=replace(other.output, ids=ids)))
    assert same is False
    assert "from token 6 on" in sentence


def test_a_stopped_lane_agrees_as_far_as_it_went(race_traces: list[Trace]) -> None:
    plain, other = race_traces
    short = replace(plain, output=replace(plain.output, ids=plain.output.ids[:7]))
    assert numbers.verdict_on_texts(short, other) == (
        True,
        "Both lanes wrote the same text as far as both wrote (7 tokens).",
    )


def test_above_temperature_0_different_texts_are_no_fault(race_traces: list[Trace]) -> None:
    plain, other = race_traces
    warm = replace(
        other, header=replace(other.header, settings={**other.header.settings, "temperature": 0.8})
    )
    same, sentence = numbers.verdict_on_texts(plain, warm)
    assert same is None
    assert "happened to write the same" in sentence
    other_ids = [warm.output.ids[0] + 1, *warm.output.ids[1:]]
    same, sentence = numbers.verdict_on_texts(
        plain, replace(warm, output=replace(warm.output, ids=other_ids))
    )
    assert same is None
    assert "diverge at token 1" in sentence and "two different texts" in sentence


def test_no_speedup_compares_texts_where_there_is_none(race_traces: list[Trace]) -> None:
    """Catches: “the speedup compares two different texts” beside a dash. Below 16 tokens there is no speedup."""
    plain, other = race_traces
    for settings in ({"rule": "typical"}, {"temperature": 0.8}):
        header = replace(other.header, settings={**other.header.settings, **settings})
        parted = replace(
            other,
            header=header,
            output=replace(other.output, ids=[other.output.ids[0] + 1, *other.output.ids[1:]]),
        )
        assert "the speedup compares two different texts" in numbers.verdict_on_texts(plain, parted)[1]
        stopped = replace(parted, stats=replace(parted.stats, tokens=15))
        said = numbers.verdict_on_texts(plain, stopped)[1]
        assert "diverge at token 1" in said and "speedup" not in said


def test_a_downloaded_table_has_a_row_for_each_token_whatever_its_text(race_traces: list[Trace]) -> None:
    """Catches: a carriage return in a token's text that begins a new row."""
    trace = race_traces[0]
    texts = ["\r", "\n", ",", '"', *trace.output.texts[4:]]
    shown = csv_of(replace(trace, output=replace(trace.output, texts=texts)), "tokens")
    read = list(csv.DictReader(io.StringIO(shown, newline="")))
    assert [row["text"] for row in read] == texts


def test_one_lane_s_charts_ask_nothing_of_a_second(race_traces: list[Trace]) -> None:
    """Catches: “which line is steeper” of one line, and what drafting costs where nothing drafts."""
    plain, other = race_traces
    alone = [
        draw([plain], ["Plain decoding"], "m").title
        for draw in (charts.round_timeline, charts.tokens_against_time)
    ]
    assert not any(word in " ".join(alone) for word in ("each lane", "drafting", "steeper"))
    both = [
        draw([plain, other], ["a", "b"], "m").title
        for draw in (charts.round_timeline, charts.tokens_against_time)
    ]
    assert "drafting" in both[0] and "steeper" in both[1]


def test_the_timeline_draws_every_part_where_the_trace_has_it(race_traces: list[Trace]) -> None:
    labels = ("Plain decoding", "Draft model")
    chart = charts.round_timeline(race_traces, labels, "measured")
    drawn = {
        (bar.name, lane, int(told[0].split()[-1])): (start, length)
        for bar in chart.figure.data
        for lane, told, start, length in zip(
            [lane.split("<br>")[0] for lane in bar.y], bar.customdata, bar.base, bar.x, strict=True
        )
    }
    for trace, label in zip(race_traces, ("Plain decoding", "Draft model"), strict=True):
        for row in trace.rounds:
            assert drawn["target pass", label, row.index + 1] == (row.start_s + row.draft_s, row.verify_s)
            start, length = drawn["other work", label, row.index + 1]
            assert start + length == pytest.approx(row.end_s)
            if row.draft_s and label == "Draft model":
                assert drawn["draft", label, row.index + 1] == (row.start_s, row.draft_s)
    bars = {bar.name: bar for bar in chart.figure.data}
    assert {*bars} == {"draft", "target pass", "other work"}
    assert len({bar.marker.pattern.shape for bar in bars.values()}) == len(bars)  # told apart without colour
    assert not any("Plain decoding" in lane for lane in bars["draft"].y)
    assert {*bars["target pass"].y} == {
        f"{label}<br>{trace.stats.target_passes} passes"
        for trace, label in zip(race_traces, ("Plain decoding", "Draft model"), strict=True)
    }
    assert "target passes" in chart.alt


def test_the_phases_of_many_rounds_are_added_up(
    race_traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: hundreds of slivers that no one can read, and whose frames hide what they stand for."""
    monkeypatch.setattr(timeline, "MOST_ROUNDS", 2)
    labels = ("Plain decoding", "Draft model")
    bars = charts.round_timeline(race_traces, labels, "measured").figure.data
    added = {
        (bar.name, lane.split("<br>")[0]): (start, length)
        for bar in bars
        for lane, start, length in zip(bar.y, bar.base, bar.x, strict=True)
    }
    assert len(added) == sum(len(bar.y) for bar in bars)
    for trace, label in zip(race_traces, labels, strict=True):
        drafted, verified = (
            sum(getattr(row, name) for row in trace.rounds) for name in ("draft_s", "verify_s")
        )
        before = 0.0 if label == "Plain decoding" else drafted
        assert added["target pass", label] == pytest.approx((before, verified))
        other = trace.stats.decode_s - before - verified
        assert added["other work", label] == pytest.approx((before + verified, other))
        assert ("draft", label) not in added or added["draft", label] == pytest.approx((0.0, drafted))


def test_tokens_against_time_ends_at_the_trace_s_last_token(race_traces: list[Trace]) -> None:
    chart = charts.tokens_against_time(race_traces, ["Plain decoding", "Draft model"], "measured")
    for line, trace in zip(chart.figure.data, race_traces, strict=True):
        assert line.x[0] == line.y[0] == 0
        assert line.y[-1] == trace.stats.tokens
        assert line.x[-1] == trace.rounds[-1].end_s
        assert list(line.y) == [0, *_running(len(row.committed.token) for row in trace.rounds)]
        assert line.line.shape == "hv"
    assert len({line.line.dash for line in chart.figure.data}) == 2
    assert chart.provenance == "measured"


def test_charts_of_a_run_that_was_stopped_at_once_are_drawn_empty(race_traces: list[Trace]) -> None:
    empty = [
        replace(
            trace, rounds=[], stats=replace(trace.stats, tokens=0, tokens_per_second=None, target_passes=0)
        )
        for trace in race_traces
    ]
    for draw in (charts.round_timeline, charts.tokens_against_time):
        assert draw(empty, ["a", "b"], "measured").figure.to_json()


def _running(values: object) -> list[int]:
    total, found = 0, []
    for value in values:  # type: ignore[attr-defined]
        total += value
        found.append(total)
    return found
