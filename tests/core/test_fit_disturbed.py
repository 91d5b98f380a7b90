"""`specdec fit` on a machine that is disturbed: runs that were held up are repeated, and the report says so."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import specdec_core as sd
from specdec_measure.fitting.candidates import Candidate, candidates, plain
from specdec_measure.fitting.search import order, race, ranked
from specdec_measure.fitting.state import FitCell, FitState, Stage
from specdec_measure.fitting.verdict import judge
from specdec_measure.sweep.cases import Case

from .test_fit import SETTINGS, Scripted, cases, filled, scripted
from .tiny import pair


class HeldUp(Scripted):
    """Some runs, by label and how many of that candidate came before, take six times as long."""

    stalls: frozenset[tuple[str, int]] = frozenset()
    count: dict[str, int]

    def _cell(self, stage: Stage, case: Case, repeat: int, lane: Candidate, tokens: int) -> FitCell:
        cell = super()._cell(stage, case, repeat, lane, tokens)
        number = self.count[lane.label] = self.count.get(lane.label, -1) + 1
        if (lane.label, number) in self.stalls:
            cell.measured.seconds *= 6.0
        return cell


def held_up(folder: Path, budget: float, *stalls: tuple[int, int]) -> tuple[HeldUp, list[Candidate]]:
    """Three candidates, at 1.2, 1.5 and 1.8 times plain decoding's speed. `stalls`: lane and run, plain decoding 0."""
    bench = scripted(folder, 1, budget)
    bench.__class__ = HeldUp
    assert isinstance(bench, HeldUp)
    field = candidates(pair("llama"), SETTINGS)[0][:3]
    bench.table = {one.label: 1.2 + 0.3 * at for at, one in enumerate(field)}
    bench.noise, bench.count = random.Random(), {}
    bench.noise.lognormvariate = lambda mu, sigma: 1.0  # type: ignore[method-assign]
    lanes = [bench.plain, *field]
    bench.stalls = frozenset((lanes[lane].label, run) for lane, run in stalls)
    return bench, field


@pytest.mark.parametrize("stall", [(3, 0), (3, 1), (0, 0), (0, 1)])
def test_a_run_that_was_held_up_decides_nothing(tmp_path: Path, stall: tuple[int, int]) -> None:
    """The best one's run or plain decoding's, the first or a later one. Catches: a search that drops the best for one
    run, a speedup of six, a run that is repeated again and again or again after a restart."""
    bench, field = held_up(tmp_path, 100.0, stall)
    race(bench, "search", field, order(cases(2)), 12.0, 100.0)
    assert [one.label for one in ranked(bench, field)] == [one.label for one in reversed(field)]
    again = [cell for cell in FitState.open(tmp_path, {}).cells.values() if cell.runs > 1]
    assert (
        len(again) == 1 and again[0].runs == 2 and again[0].candidate in {label for label, _ in bench.stalls}
    )
    found = judge(bench.state, list(reversed(field)), bench.plain, 0)
    assert found.tested[0].tuning == pytest.approx(1.8) and "disturbed" not in found.sentence
    before = bench.clock.spent
    race(bench, "search", field, order(cases(2)), before, before)
    assert bench.clock.spent == before


def test_repeats_stay_within_the_time_and_take_little_of_it(tmp_path: Path) -> None:
    """A machine that slows down for good. Catches: a second run of everything, and one after the time is over."""
    bench, field = held_up(tmp_path, 100.0, *((lane, run) for lane in range(4) for run in range(1, 9)))
    race(bench, "search", field, order(cases(6)), 24.0, 24.0)
    assert bench.clock.spent <= 24.0
    assert sum(cell.runs - 1 for cell in bench.state.cells.values()) <= 5
    last, others = held_up(tmp_path / "last", 100.0, (0, 0))
    race(last, "search", others, order(cases(2)), 4.0, 4.0)
    assert last.clock.spent == 4.0 and all(cell.runs == 1 for cell in last.state.cells.values())


def test_noise_repeats_nothing_and_alarms_nobody(tmp_path: Path) -> None:
    """A candidate that guesses nothing is as fast as plain decoding, give or take. Catches: a plain decoding that is
    measured again wherever that is a little more, so that its faster run always counts, and an alarm in every fit."""
    bench, field = held_up(tmp_path, 100.0)
    for one in field[1:]:
        bench.table[one.label] = 3.1  # with three tokens per pass
    race(bench, "search", field, order(cases(2)), 12.0, 100.0)
    assert bench.clock.spent == 12.0 and all(cell.runs == 1 for cell in bench.state.cells.values())
    assert "disturbed" not in judge(bench.state, field[:1], bench.plain, 0).sentence
    assert "disturbed" in judge(bench.state, field[1:], bench.plain, 0).sentence


def test_impossible_speedups_are_said_to_be_impossible(tmp_path: Path) -> None:
    """A speedup above the tokens per pass. Catches: a figure of 6.89× with 1.82 tokens per pass, and not a word."""
    state, one = filled(tmp_path, [1.2] * 7)
    assert "disturbed" not in judge(state, [one], plain(SETTINGS), 0).sentence
    key = next(key for key in state.cells if key[0] == "held back" and key[1] == one.label)
    state.cells[key].measured.tokens_per_pass = 1.1
    assert judge(state, [one], plain(SETTINGS), 0).sentence.endswith(
        "In 1 of 15 races against plain decoding the speedup exceeds the tokens per pass, which guessing cannot reach: "
        "the machine was disturbed, and these figures are rougher than their intervals say."
    )


def test_a_disturbed_fit_says_so_in_all_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain decoding takes too long in every run. Catches: a report or a configuration without the sentence, a report
    that hides what was repeated."""
    from specdec_measure.fitting import bench

    def slow(*arguments: object) -> bool:
        done = real(*arguments)  # type: ignore[arg-type]
        row = arguments[4]
        if row.lane == 0:  # type: ignore[attr-defined]
            row.seconds *= 1000.0  # type: ignore[attr-defined]
        return done

    real = bench.time_cell
    monkeypatch.setattr(bench, "time_cell", slow)
    lines = ["abc" * count for count in range(1, 7)]
    found = sd.fit(
        pair("llama"), lines, tmp_path, settings=SETTINGS.but(max_new_tokens=20), minutes=0.1, chat=False
    )
    assert "the machine was disturbed" in found.sentence
    assert "the machine was disturbed" in json.loads((tmp_path / "config.json").read_text())["sentence"]
    report = (tmp_path / "report.html").read_text()
    assert "the machine was disturbed" in report and "repeated, as a pass took at least 2 times" in report
