"""Passes that something else held up, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

import specdec_core as sd
from app.running.why import held_up_words
from specdec_measure.analysis.diagnosis import why
from specdec_measure.analysis.slow_passes import held_up
from tests.player.samples import Plan, plain_trace, spec_trace

ROUNDS = [Plan([(" The", 0.9, 0.5, 0.1)], " fox")] * 12


def _slowed(trace: sd.Trace, times: dict[int, float]) -> sd.Trace:
    """Its passes 10 ms each, but for these."""
    rounds = [replace(row, verify_s=times.get(row.index, 0.01)) for row in trace.rounds]
    passes = sum(row.verify_s for row in rounds)
    return replace(trace, rounds=rounds, stats=replace(trace.stats, verify_s=passes))


def test_a_pass_twice_as_long_as_others_of_its_width_was_held_up() -> None:
    trace = spec_trace(ROUNDS)
    assert held_up(_slowed(trace, {})) == {}
    assert held_up(_slowed(trace, {4: 0.019})) == {}
    assert held_up(_slowed(trace, {4: 0.31, 7: 0.05})) == pytest.approx({4: 0.3, 7: 0.04})


def test_a_wide_pass_and_a_short_run_are_not_called_held_up() -> None:
    """Catches: a proposer's widest pass, or one of three passes, taken for a disturbance."""
    wide = spec_trace([*ROUNDS, Plan([(" The", 0.9, 0.5, 0.1)] * 16, " fox")])
    assert held_up(_slowed(wide, {12: 0.05})) == {}
    assert held_up(_slowed(spec_trace(ROUNDS[:4]), {2: 0.3})) == {}


def test_the_sentence_names_the_lane_and_how_long() -> None:
    lane, plain = spec_trace(ROUNDS), plain_trace()
    slow = _slowed(lane, {4: 0.31})
    words = held_up_words(_slowed(plain, {}), slow)
    undisturbed = why(_slowed(plain, {}), _slowed(lane, {}))
    assert undisturbed is not None
    slowed = " Other programs slowed this lane's passes by 300 ms"
    assert words == f"{slowed}; without that, about {undisturbed.speedup:.2f}×."
    slow_plain = _slowed(plain, {1: 0.31, 2: 0.11})
    both = held_up_words(slow_plain, slow)
    assert (
        both
        == f"{slowed} and plain decoding's passes by 400 ms; without that, about {undisturbed.speedup:.2f}×."
    )
    assert held_up_words(_slowed(plain, {}), _slowed(lane, {})) == ""
    twice = [
        _slowed(one, {1: 0.01 + _slowed(one, {}).stats.decode_s}) for one in (plain, lane)
    ]  # each of the two
    assert f"; without that, about {undisturbed.speedup:.2f}×." in held_up_words(*twice)
