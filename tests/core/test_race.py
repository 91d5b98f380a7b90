"""Several lanes on fair clocks: each writes what it would write alone, and the one that is behind goes next."""

from __future__ import annotations

from collections import defaultdict

import pytest

import specdec_core as sd
from specdec_measure.testing import scripted

from .distributions import mixture, wavering
from .tiny import PROMPTS, pair

_target = wavering(8, seed=4)
MODELS = scripted(_target, mixture(_target, wavering(8, seed=5), 0.3))
BASE = sd.Settings(max_new_tokens=25, temperature=0.8, seed=6)
LANES = [BASE.but(proposer="none"), BASE, BASE.but(proposer="prompt-lookup"), BASE.but(draft_length=8)]


def test_the_lane_whose_clock_is_behind_computes_next() -> None:
    """The order follows from the recorded clocks, whatever the machine does. Catches: round-robin, or one lane after
    the other."""
    clocks = dict.fromkeys(range(len(LANES)), 0.0)
    started: list[int] = []
    for event in sd.race(MODELS, [1, 2, 1], LANES):
        if isinstance(event, sd.Started):
            started.append(event.lane)
            continue
        assert len(started) == len(LANES), "every lane reads its prompt before any clock runs"
        assert clocks[event.lane] == min(clocks.values())
        if isinstance(event, sd.Step):
            assert event.clock_s > clocks[event.lane]
            clocks[event.lane] = event.clock_s
        elif isinstance(event, sd.Finished):
            del clocks[event.lane]
    assert clocks == {}
    assert started == [0, 1, 2, 3]


def test_the_records_of_a_race_name_it() -> None:
    """Catches: lanes that nobody can tell from separate runs, and two races under one name."""
    races = []
    for _ in range(2):
        events = sd.race(MODELS, [1, 2, 1], LANES)
        traces = [event.trace for event in events if isinstance(event, sd.Finished)]
        found = [trace.header.race for trace in traces]
        assert sorted((race.lane, race.lanes) for race in found if race) == [(lane, 4) for lane in range(4)]
        (race,) = {race.id for race in found if race}
        races.append(race)
        assert all(sd.Trace.from_json(trace.to_json()) == trace for trace in traces)
    assert races[0] != races[1]
    assert sd.decode(MODELS, [1, 2, 1], BASE).header.race is None


def test_a_step_reports_the_phases_that_the_record_holds() -> None:
    """Catches: a live picture of the time that the finished record corrects."""
    names = ("start_s", "draft_s", "verify_s", "judge_s", "commit_s", "ahead_s")
    steps: dict[int, list[list[float]]] = defaultdict(list)
    for event in sd.race(MODELS, [1, 2, 1], LANES):
        if isinstance(event, sd.Step):
            steps[event.lane].append([getattr(event, name) for name in names])
            assert sum(steps[event.lane][-1][:-1]) == pytest.approx(event.clock_s)
        elif isinstance(event, sd.Finished):
            rows = event.trace.rounds
            assert steps[event.lane] == [[getattr(row, name) for name in names] for row in rows]
            assert any(row.draft_s > 0 and row.verify_s > 0 for row in rows)


@pytest.mark.parametrize("models", ["scripted", "real"])
def test_each_lane_writes_what_it_would_write_alone(models: str) -> None:
    """Tokens, verdicts and ends. Catches: lanes that share a cache, a random state or a proposer's table."""
    chosen, prompt = (MODELS, [1, 2, 1]) if models == "scripted" else (pair("qwen2"), PROMPTS[2])
    steps: dict[int, list[tuple[list[int], list[str]]]] = defaultdict(list)
    traces: dict[int, sd.Trace] = {}
    for event in sd.race(chosen, prompt, LANES):
        if isinstance(event, sd.Step):
            steps[event.lane].append((event.tokens, list(event.verdict)))
        elif isinstance(event, sd.Finished):
            traces[event.lane] = event.trace
    for lane, settings in enumerate(LANES):
        alone = sd.decode(chosen, prompt, settings)
        assert traces[lane].token_ids == alone.token_ids
        assert steps[lane] == [(row.committed.token, row.nodes.verdict) for row in alone.rounds]
        assert traces[lane].audit() == []


@pytest.mark.parametrize("count", [0, 9])
def test_a_race_of_no_lanes_or_too_many_is_refused(count: int) -> None:
    """At the call, with a sentence."""
    with pytest.raises(sd.SettingsError, match="1 to 8 lanes"):
        sd.race(MODELS, [1], [BASE] * count)


def test_one_bad_lane_refuses_the_race_before_its_first_event() -> None:
    """Catches: a race that starts and then breaks."""
    with pytest.raises(sd.SettingsError, match="no proposer"):
        sd.race(MODELS, [1], [BASE, BASE.but(proposer="wishes")])


def test_cancelling_ends_every_lane_with_its_trace() -> None:
    """Catches: a lane left behind without a record; a lane that computes while another's record is written up."""
    steps: list[sd.Step] = []
    traces = []
    ended: set[int] = set()
    for event in sd.race(MODELS, [1, 2], LANES, cancelled=lambda: len(steps) >= 5):
        if isinstance(event, sd.Ended):
            ended.add(event.lane)
            assert not traces
        if isinstance(event, sd.Step):
            steps.append(event)
        if isinstance(event, sd.Finished):
            traces.append(event.trace)
    assert len(steps) == 5
    assert ended == set(range(len(LANES)))
    assert len(traces) == len(LANES)
    assert all(trace.end == "cancelled" and trace.audit() == [] for trace in traces)


def test_plain_decoding_has_one_token_per_pass() -> None:
    """The definition of τ makes plain decoding the unit; α and proposals do not exist there."""
    stats = sd.decode(MODELS, [1, 2], BASE.but(proposer="none")).stats
    assert (stats.tokens_per_pass, stats.target_passes, stats.proposed) == (1.0, 25, 0)
    assert stats.acceptance_rate is None
    assert stats.draft_passes == 0


def test_statistics_follow_their_definitions() -> None:
    """Counted again from the rounds. Catches: a rate over proposed tokens instead of judged ones, prefill in the
    clock."""
    trace = sd.decode(MODELS, [1, 2], BASE)
    stats = trace.stats
    verdicts = [verdict for row in trace.rounds for verdict in row.nodes.verdict]
    judged = verdicts.count("accepted") + verdicts.count("rejected")
    assert stats.acceptance_rate == verdicts.count("accepted") / judged
    assert stats.tokens_per_pass == len(trace.token_ids) / len(trace.rounds)
    assert stats.decode_s == pytest.approx(trace.rounds[-1].end_s)
    assert stats.tokens_per_second == pytest.approx(len(trace.token_ids) / stats.decode_s)
    assert stats.draft_passes == sum(row.draft_passes for row in trace.rounds)
