"""The picture of draft lengths: its points and bars are the analysis's, and records without guesses have none."""

from __future__ import annotations

import pytest

from app.charts.lengths import chosen_lengths, policies
from app.records import examples
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.record.trace import Trace
from specdec_measure.analysis.lengths import reliability
from specdec_measure.machines.costs import Costs

COSTS = Costs(lambda tokens: 1.0 + 0.05 * tokens, lambda tokens: 0.1, 4, 0.1, 1, 128, "")


def _trace(name: str) -> Trace:
    return Trace.from_json(examples.files()[name].read_bytes())


def test_bars_are_the_policies_by_what_they_lose() -> None:
    """Every policy, the best fixed length and the longest, the fastest first. Catches: a policy left out, a fixed
    length that is not the best one, a bar of another order than its name."""
    trace = _trace("long-draft")
    ranked = policies(trace, COSTS)
    assert {one.policy for one in ranked} == {*LENGTH_POLICIES}
    assert [one.regret for one in ranked] == sorted(one.regret for one in ranked) and ranked[0].regret >= 0
    chart = chosen_lengths(trace, "A", COSTS, "here")
    assert chart is not None
    *_, bars = chart.figure.data
    assert list(bars.x) == [one.regret for one in ranked]
    points = [
        point
        for one in chart.figure.data
        if one.type == "scatter" and one.mode == "lines+markers"
        for point in one.y
    ]
    assert points == [point.accepted for point in reliability(trace)]
    assert "Cost-aware" in chart.alt


@pytest.mark.parametrize("name", ["lossy", "eagle", "none"])
def test_what_cannot_be_replayed_has_no_picture(name: str) -> None:
    """A sampled text, a tree, plain decoding. Catches: an error on the page, figures from nowhere."""
    assert chosen_lengths(_trace(name), "A", COSTS, "here") is None
